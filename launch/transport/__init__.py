"""Connections to programs on hosts: pipes on this machine, SSH to others."""
