"""Where it runs: hosts, the plan of a job's processes, the agent that starts and watches them."""
