"""Runs in the formats of other tools, one module per tool."""

TARGETS = ("mllog", "tensorboard", "mlflow", "junit", "prometheus", "badge")
