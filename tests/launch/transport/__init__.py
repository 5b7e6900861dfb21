"""Tests of the connections to hosts."""
