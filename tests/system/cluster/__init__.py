"""Tests of jobs on the hosts of a local test cluster."""
