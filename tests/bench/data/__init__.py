"""Tests of how a job reads its data."""
