"""Logs of other tools: their lines, and the throughput that they print."""
