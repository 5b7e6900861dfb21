"""What bounds a point: budget of its step, verdict, counter-experiment."""
