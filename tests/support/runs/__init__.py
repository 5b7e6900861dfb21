"""Runs, their records, and logs that become runs."""
