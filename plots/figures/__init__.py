"""The figures: model, panels, axes, labels, caption."""
