"""Repetitions: a few in make test, all in make test-slow."""

from collections.abc import Iterable
from typing import Any

import pytest


def slow(*values: Any) -> list[Any]:
    """Return parameters that only `make test-slow` runs."""
    return [pytest.param(*_words(value), marks=pytest.mark.slow) for value in values]


def _words(value: Any) -> Iterable[Any]:
    return value if isinstance(value, tuple) else (value,)


def numbers(count: int, quick: int) -> list[Any]:
    """Return the numbers below `count`; from `quick` on only in `make test-slow`."""
    return [*range(quick), *slow(*range(quick, count))]
