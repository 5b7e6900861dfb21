"""Builders, samples and helper programs that several tests use."""
