"""A practice cluster: hosts as namespaces of one Linux machine, to try things on."""
