"""Logs of other tools, read into records: docs/how-to/import-logs.md."""
