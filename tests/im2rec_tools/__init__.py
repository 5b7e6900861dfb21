"""Tests of the package im2rec_tools."""
