"""Wait for hosts that other programs use, before a sweep measures on them."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from launch.hosts import Host
from launch.preflight.findings import usage_text
from launch.remote import limits
from launch.remote.facts import usage
from launch.transport.client import RemoteProgram, map_hosts
from launch.transport.line import Starter

_POLL_SECONDS = 1.0
_CONSEQUENCE = "results will not be publishable"


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The time, and how to pass it; tests have another."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def busy_hosts(hosts: Sequence[Host], start: Starter) -> list[str]:
    """Measure the hosts at once; return a text for each that other programs use.

    It has the host's name unless it is this machine.
    """
    if hosts[0].login is None:
        return [text] if (text := usage_text(usage())) else []
    found = map_hosts(partial(_usage_of, start), hosts)
    return named_usages({host.name: one for host, one in zip(hosts, found, strict=True)})


def named_usages(usages: dict[str, dict[str, Any]]) -> list[str]:
    """Return a text with the name of each host that other programs use."""
    return [f"{name}: {text}" for name, one in usages.items() if (text := usage_text(one))]


def _usage_of(start: Starter, host: Host) -> dict[str, Any]:
    with closing(RemoteProgram(host, start, "probe")) as probe:
        return probe.request({"do": "usage"}, limits.PROBE_SECONDS, "usage")


def await_idle(
    busy: list[str],
    measure: Callable[[], list[str]],
    most_seconds: float,
    clock: Clock | None = None,
) -> Iterator[str]:
    """Wait until no host is busy or the time is over; yield lines to print.

    `busy` has the texts of the first check, `measure` returns those of another.
    """
    clock = clock or Clock()
    if not busy:
        return
    if not most_seconds:
        yield f"warning: {'; '.join(busy)}: {_CONSEQUENCE}"
        return
    yield f"waiting up to {most_seconds:g} s: {'; '.join(busy)}"
    began = clock.now()
    while busy and (left := began + most_seconds - clock.now()) > 0:
        clock.sleep(min(_POLL_SECONDS, left))
        busy = measure()
    if busy:
        yield f"warning: still busy after {most_seconds:g} s: {'; '.join(busy)}: {_CONSEQUENCE}"
    else:
        yield f"idle after {clock.now() - began:.0f} s"
