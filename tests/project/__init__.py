"""Tests of the project itself: its structure, words, tests and documentation."""
