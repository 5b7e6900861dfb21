"""The data commands: `fab data.NAME` and `python -m im2rec_tools NAME`."""

# The module of each command.
NAMES = {
    "fetch": "transfer",
    "upload": "transfer",
    "partition": "partition",
    "untar": "untar",
    "val-tree": "trees",
    "filter": "trees",
    "split": "trees",
    "list": "list",
    "pack": "pack",
    "verify": "shards",
    "shard": "shards",
    "to-tfrecord": "tfrecord",
    "from-tfrecord": "tfrecord",
    "to-webdataset": "webdataset",
    "from-webdataset": "webdataset",
    "sample": "sample",
    "prepare": "prepare",
    "info": "shards",
    "join-index": "shards",
}
