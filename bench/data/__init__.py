"""Input data: shards, partitions, decoding, augmentation, page cache."""

# Help of options that name shards.
DATA = "a .rec file, a folder of them, several joined by ';', or a .txt file with one path per line"
