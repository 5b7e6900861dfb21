"""Shards of a job: which worker reads what, decoding, augmentation, the page cache."""
