"""Images to RecordIO shards and back; stands alone and serves by hand."""
