"""Energy and cost of a point."""
