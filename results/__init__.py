"""Records of runs, their store, and the throughput and scaling computed from them."""
