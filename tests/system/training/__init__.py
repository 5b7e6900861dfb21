"""Tests of real training jobs on MXNet."""
