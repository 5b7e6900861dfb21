"""Workers of engine `torch`: DistributedDataParallel under the shared loop."""
