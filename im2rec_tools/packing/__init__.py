"""Packing of image lists into shards: encoder processes, manifests, verification."""
