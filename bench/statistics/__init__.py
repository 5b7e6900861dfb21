"""Steady state, confidence intervals and when enough windows are measured."""
