"""Tests of a job while it runs."""
