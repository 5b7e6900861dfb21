"""Tests of prices and energy."""
