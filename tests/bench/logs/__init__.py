"""Tests of the engines that run a trial's processes."""
