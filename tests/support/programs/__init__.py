"""Programs as a person starts them: tasks, launchers, jobs, and kills of them."""
