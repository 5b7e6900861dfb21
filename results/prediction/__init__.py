"""Throughput on more devices, predicted from a run and from published tables."""
