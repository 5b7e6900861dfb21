"""Tests of imports of other tools' logs."""
