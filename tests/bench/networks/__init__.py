"""Tests of the networks."""
