"""The figures: what is drawn, panels, axes, labels, captions."""
