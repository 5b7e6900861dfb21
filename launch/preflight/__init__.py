"""Host checks before a job: whether hosts are fit and alike."""
