"""Tests of packing and verification."""
