"""Workers that train, and upstream's programs to compare with."""
