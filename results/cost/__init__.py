"""Energy and money of a point."""
