"""Tests of the commands in the README and in the documentation."""
