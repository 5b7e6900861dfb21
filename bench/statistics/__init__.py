"""Steady state, confidence intervals and the stopping rule."""
