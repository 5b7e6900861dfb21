"""Tests of the statements, tables and links in the documentation."""
