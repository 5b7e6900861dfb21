"""Tests of comparisons between runs."""
