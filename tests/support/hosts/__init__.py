"""Agents, host reports, local test clusters, and hosts that send false data."""
