"""Screens, tables, figures and reports, drawn from the rows of a run."""
