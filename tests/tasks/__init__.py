"""Tests of the tasks of fab."""
