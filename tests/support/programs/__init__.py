"""Tasks, launchers and jobs as programs, and interruptions of them."""
