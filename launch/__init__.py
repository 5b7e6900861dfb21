"""Hosts, jobs on them, and the connections to them."""
