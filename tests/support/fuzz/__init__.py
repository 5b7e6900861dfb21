"""Mutated samples and hostile words for every parser."""
