"""Tests of mxscale: a folder for each package, whole programs in system."""
