"""What is known of hosts before a job starts: whether they are fit and alike."""
