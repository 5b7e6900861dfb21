"""Tests of confidence intervals and the steady state."""
