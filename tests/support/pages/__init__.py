"""The web page, its figures, and Chromium."""
