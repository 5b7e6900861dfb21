"""Tests of whole programs: kills, full disks, secrets, bounds."""
