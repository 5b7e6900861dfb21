"""Tests of whole programs and of the project itself."""
