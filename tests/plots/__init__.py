"""Tests of the package plots."""
