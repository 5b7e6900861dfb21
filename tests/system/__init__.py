"""Tests of whole programs, clusters, the page in Chromium and commands of pages."""
