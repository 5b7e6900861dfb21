"""Tests of the worker of engine torch."""
