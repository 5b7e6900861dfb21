"""The commands, by group; `fabfile.py` gives them their names."""
