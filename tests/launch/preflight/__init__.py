"""Tests of the check of hosts before a job."""
