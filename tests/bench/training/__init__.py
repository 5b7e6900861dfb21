"""Tests of the training program."""
