"""Tests of the package results."""
