"""What is measured: trials, the training job, networks and data. Runs on every host."""
