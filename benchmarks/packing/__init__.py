"""Benchmarks of packing: time and memory, lists, and the quality of images."""
