"""Tests of jobs and sweeps on this machine."""
