"""Image lists to shards: encoder processes, manifests, verification."""
