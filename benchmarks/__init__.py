"""Benchmarks of mxscale; each module is a program, none is a test."""
