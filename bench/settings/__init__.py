"""Settings: the fields of a trial, declared once each, in parts."""
