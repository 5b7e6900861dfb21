"""Trials, the training job, networks and data: the code that runs on every host."""
