"""Images, lists and shards."""
