"""Benchmarks of statistics: intervals, comparisons and predictions."""
