"""Folders of the checkout and of the tests."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
GOLDEN = TESTS / "golden"
LOGS = TESTS / "logs"
SEEDS = TESTS / "seeds"
