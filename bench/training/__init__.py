"""The training process of a worker, and the modes that measure parts of it."""
