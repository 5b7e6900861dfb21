"""Jobs: processes, the agents that start them, monitoring and verdicts."""
