"""Cost of reports, digests, resumed sweeps and start-up as runs grow."""
