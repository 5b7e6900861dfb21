"""Input data: shards, partitions, decoding, augmentation, page cache."""
