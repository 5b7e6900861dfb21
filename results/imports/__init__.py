"""Logs of other tools, read into records: docs/import.md."""
