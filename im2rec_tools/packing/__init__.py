"""From image lists to shards: encoding processes, their order, manifests, verification."""
