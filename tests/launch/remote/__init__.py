"""Tests of the programs that run on hosts."""
