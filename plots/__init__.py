"""What a person looks at: progress, tables, figures and reports, drawn from scaling rows."""
