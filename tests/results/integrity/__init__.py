"""Tests of digests, archives and the list of runs."""
