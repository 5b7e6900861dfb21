"""Hosts: agents, reports, practice clusters, and hosts that lie."""
