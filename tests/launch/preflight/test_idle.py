"""Other programs on a host are reported before a sweep, and waited for."""

from collections.abc import Callable

import pytest

from launch.hosts import this_machine
from launch.preflight.findings import usage_text
from launch.preflight.idle import Clock, await_idle, busy_hosts, named_usages
from launch.remote.facts import OTHERS_SHARE, usage
from launch.transport.line import start_local

BUSY = {"programs": 2, "cores": 1.7, "of": 2}
TEXT = "2 other programs use 1.7 of 2 cores"


def clock() -> Clock:
    """Return a clock that sleeping alone moves."""
    passed = [0.0]

    def sleep(seconds: float) -> None:
        passed[0] += seconds

    return Clock(now=lambda: passed[0], sleep=sleep)


def answers(*texts: list[str]) -> Callable[[], list[str]]:
    left = list(texts)
    return lambda: left.pop(0)


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (BUSY, TEXT),
        (BUSY | {"programs": 1}, "1 other program uses 1.7 of 2 cores"),
        (BUSY | {"programs": 0}, "other programs use 1.7 of 2 cores"),
        (BUSY | {"cores": 2 * OTHERS_SHARE}, ""),
        ({}, ""),
    ],
)
def test_the_use_of_a_machine_has_its_sentence(found: dict[str, float], text: str) -> None:
    assert usage_text(found) == text


def test_hosts_are_named() -> None:
    idle = BUSY | {"cores": 0.0}
    assert named_usages({"node01": idle, "node02": BUSY}) == [f"node02: {TEXT}"]


def test_an_idle_machine_is_not_mentioned() -> None:
    assert list(await_idle([], answers(), 60.0, clock())) == []


def test_a_busy_machine_is_a_warning() -> None:
    (line,) = await_idle([TEXT], answers(), 0.0, clock())
    assert line == f"warning: {TEXT}: results will not be publishable"


def test_the_wait_ends_when_the_machine_is_idle() -> None:
    lines = list(await_idle([TEXT], answers([TEXT], [TEXT], []), 60.0, clock()))
    assert lines == [f"waiting up to 60 s: {TEXT}", "idle after 3 s"]


def test_the_wait_ends_with_a_warning_when_the_time_is_over() -> None:
    lines = list(await_idle([TEXT], lambda: [TEXT], 5.0, clock()))
    assert lines[1] == (f"warning: still busy after 5 s: {TEXT}: results will not be publishable")


def test_the_measurement_is_brief_and_counts_processors() -> None:
    found = usage(0.05)
    assert found["of"] >= 1
    assert 0 <= found["cores"] <= 2 * found["of"]
    assert all(" of " in one for one in busy_hosts((this_machine(),), start_local))
