"""Digests, records computed again, archives, and the list of runs."""
