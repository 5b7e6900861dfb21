"""A job on hosts: its processes, the agents that start them, and what becomes of them."""
