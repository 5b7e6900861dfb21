"""Whether a run is as it was measured: digests, records derived again, archives."""
