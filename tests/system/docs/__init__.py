"""Tests of the commands and tables in the documentation."""
