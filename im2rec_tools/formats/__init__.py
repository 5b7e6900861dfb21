"""File formats: RecordIO, image lists, tar, TFRecord, class folders."""
