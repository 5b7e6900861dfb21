"""Integrity of runs: digests, rederived records, archives, the list of runs."""
