"""Engine `command`: a program runs the job and prints the throughput."""
