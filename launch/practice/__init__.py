"""Local test cluster: hosts as namespaces of one Linux machine."""
