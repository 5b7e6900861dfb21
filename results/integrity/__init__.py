"""Integrity of runs: digests, records rederived from events, archives, the list of runs."""
