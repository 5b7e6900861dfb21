"""Runs side by side: changes, A/B, history, saved baselines, published tables."""
