"""The tables of reports and of the terminal."""
