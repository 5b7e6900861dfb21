"""Tests of the data commands."""
