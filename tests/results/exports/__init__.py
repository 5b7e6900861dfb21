"""Tests of exports to other tools."""
