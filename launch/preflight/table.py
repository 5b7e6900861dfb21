"""Hosts that were examined, as a table: one row per host, for columns would not fit."""

import threading
from collections.abc import Sequence
from contextlib import closing

from rich.table import Table

from im2rec_tools.console import Screen, cell, line
from im2rec_tools.terminal import echo
from launch.hosts import Host
from launch.preflight.check import examine
from launch.preflight.findings import HostReport, Requirements, value
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
    "code": "",
}
_MARK, _CODE = "*", 7
_QUIET_SECONDS = 2.0


class Progress:
    """Prints hosts on stderr as they answer or fail, if that takes longer than two seconds."""

    def __init__(self, hosts: int) -> None:
        self._hosts, self._done = hosts, 0
        self._held: list[str] = []
        self._lock = threading.Lock()
        self._late = False
        self._timer = threading.Timer(_QUIET_SECONDS, self._begin)
        self._timer.daemon = True
        self._timer.start()

    def report(self, one: HostReport) -> None:
        """Takes the next host that is connected, or done with."""
        with self._lock:
            self._done += bool(one.problems or one.facts)
            state = "; ".join(one.problems) or ("answered" if one.facts else "connected")
            self._held.append(f"[{self._done}/{self._hosts}] {one.host.name}: {state}")
            if self._late:
                self._print()

    def close(self) -> None:
        """Prints nothing from now on."""
        self._timer.cancel()
        with self._lock:
            self._late = False

    def _begin(self) -> None:
        with self._lock:
            self._late = True
            self._print()

    def _print(self) -> None:
        echo(*self._held, err=True)
        self._held.clear()


def reported(hosts: Sequence[Host], start: Starter, wanted: Requirements) -> list[HostReport]:
    """The hosts as `examine` finds them, printed as they are found."""
    with closing(Progress(len(hosts))) as progress:
        return examine(hosts, start, wanted, progress.report)


def show(found: Sequence[HostReport], console: Screen | None = None) -> None:
    """Prints the table, then what is wrong and what should be known, a line each."""
    console = console or Screen(highlight=False)
    table = Table(box=None, pad_edge=False)
    for name, side in _COLUMNS.items():
        table.add_column(name, justify="right" if side else "left", overflow="fold")
    for one in found:
        table.add_row(*map(cell, host_row(one)))
    console.print(table)
    for text in lines(found):
        console.print(line(text), soft_wrap=True)


def host_row(one: HostReport) -> list[str]:
    """The cells of a host."""
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
        cell("code")[:_CODE] + (_MARK if "code" in one.differs else ""),
    ]


def lines(found: Sequence[HostReport]) -> list[str]:
    """A line a problem, a note, a pair that was measured; the last one sums up."""
    listed = [f"{one.host.name}: {problem}" for one in found for problem in one.problems]
    listed += [f"{one.host.name}: note: {note}" for one in found for note in one.notes]
    listed += [
        f"{one.host.name} to {name}: {pair['ms']:.2f} ms, {pair['mb_s']:.0f} MB/s"
        for one in found
        for name, pair in one.reach.items()
    ]
    bad = sum(bool(one.problems) for one in found)
    ready = f"{len(found) - bad} of {len(found)} hosts are ready"
    return [*listed, ready if bad else f"all {len(found)} ready" if len(found) > 1 else "ready"]
