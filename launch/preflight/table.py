"""Table of checked hosts: one row per host."""

import threading
from collections.abc import Sequence
from contextlib import closing
from itertools import compress

from rich.console import JustifyMethod
from rich.table import Table

from im2rec_tools.console import Screen, cell, line
from im2rec_tools.terminal import echo
from launch.hosts import Host
from launch.preflight.check import examine
from launch.preflight.findings import (
    HostReport,
    Requirements,
    problem_lines,
    value,
    without_name,
)
from launch.transport.line import Starter

_COLUMNS = {
    "host": "",
    "address": "right",
    "cores": "right",
    "memory": "right",
    "GPUs": "",
    "free": "right",
    "load": "right",
    "Python": "",
    "MXNet": "",
    "PyTorch": "",
    "code": "",
}
_MARK, _CODE = "*", 7
_QUIET_SECONDS = 2.0


class Progress:
    """Progress of a check on stderr, if it takes longer than two seconds."""

    def __init__(self, hosts: int) -> None:
        self._hosts, self._done = hosts, 0
        self._held: list[str] = []
        self._first: dict[str, str] = {}
        self._lock = threading.Lock()
        self._late = False
        self._timer = threading.Timer(_QUIET_SECONDS, self.begin)
        self._timer.daemon = True
        self._timer.start()

    def report(self, one: HostReport) -> None:
        """Take the next host that is connected or finished."""
        with self._lock:
            self._done += bool(one.problems or one.facts)
            healthy = "answered" if one.facts else "connected"
            state = self._failure(one) if one.problems else healthy
            self._held.append(f"[{self._done}/{self._hosts}] {one.host.name}: {state}")
            if self._late:
                self._print()

    def _failure(self, one: HostReport) -> str:
        """Return the problems of a host; only its first host if others have the same."""
        problems, name = "; ".join(one.problems), one.host.name
        first = self._first.setdefault(without_name(problems, name), name)
        return problems if first == name else f"same problem as {first}"

    def close(self) -> None:
        """Stop printing."""
        self._timer.cancel()
        with self._lock:
            self._late = False

    def begin(self) -> None:
        """Print the hosts so far, and each next one."""
        with self._lock:
            self._late = True
            self._print()

    def _print(self) -> None:
        echo(*self._held, err=True)
        self._held.clear()


def reported(hosts: Sequence[Host], start: Starter, wanted: Requirements) -> list[HostReport]:
    """Check the hosts as `examine` does, and print each as it finishes."""
    with closing(Progress(len(hosts))) as progress:
        return examine(hosts, start, wanted, progress.report)


def show(found: Sequence[HostReport], console: Screen | None = None) -> None:
    """Print the table, then one line per different problem and per note.

    PyTorch has a column if a host has it.
    """
    console = console or Screen(highlight=False)
    table = Table(box=None, pad_edge=False)
    some = any(one.facts.get("torch") for one in found)
    shown = [some or name != "PyTorch" for name in _COLUMNS]
    for name, side in compress(_COLUMNS.items(), shown):
        justify: JustifyMethod = "right" if side else "left"
        table.add_column(name, justify=justify, overflow="fold", min_width=len(name))
    for one in found:
        table.add_row(*map(cell, compress(host_row(one), shown)))
    console.print(table)
    for text in lines(found):
        console.print(line(text), soft_wrap=True)


def host_row(one: HostReport) -> list[str]:
    """Return the cells of a host."""
    if not one.facts:
        return [one.host.name, *["-"] * (len(_COLUMNS) - 1)]
    facts = one.facts

    def cell(name: str) -> str:
        return (value(one, name) or "-") + (_MARK if name in one.differs else "")

    return [
        one.host.name,
        one.host.address or "-",
        cell("cores"),
        cell("memory"),
        cell("gpus"),
        f"{facts['free_bytes'] / 1e9:.0f} GB",
        f"{facts['load']:.1f}",
        cell("python"),
        cell("mxnet"),
        cell("torch"),
        cell("code")[:_CODE] + (_MARK if "code" in one.differs else ""),
    ]


def lines(found: Sequence[HostReport]) -> list[str]:
    """Return one line per different problem, note and measured pair, then a summary."""
    listed = problem_lines((one.host.name, each) for one in found for each in one.problems)
    listed += [f"{one.host.name}: note: {note}" for one in found for note in one.notes]
    listed += [
        f"{one.host.name} to {name}: {pair['ms']:.2f} ms, {pair['mb_s']:.0f} MB/s"
        for one in found
        for name, pair in one.reach.items()
    ]
    bad = sum(bool(one.problems) for one in found)
    ready = f"{len(found) - bad} of {len(found)} hosts are ready"
    return [*listed, ready if bad else f"all {len(found)} ready" if len(found) > 1 else "ready"]
