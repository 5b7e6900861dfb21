"""The data commands: `fab data.NAME` and `python -m im2rec_tools NAME`."""

NAMES = (
    "untar",
    "val-tree",
    "filter",
    "split",
    "list",
    "pack",
    "verify",
    "shard",
    "to-tfrecord",
    "from-tfrecord",
    "sample",
    "prepare",
    "info",
    "join-index",
)
