"""Runs side by side: what changed, A/B, history, saved baselines, published tables."""
