"""Tests of the transfer of files."""
