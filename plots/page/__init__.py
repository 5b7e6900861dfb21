"""The page: a run as one HTML file that needs no network and nothing beside it."""
