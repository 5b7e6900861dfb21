"""Measurements side by side; each is a program, none is a test."""
