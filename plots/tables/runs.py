"""Tables of runs: all of a folder, or one with its points, files and hosts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from im2rec_tools.console import Screen, cell, line
from im2rec_tools.files import format_size
from plots.format import list_names
from plots.tables.layout import terminal_table
from results.comparison.differences import host_facts
from results.integrity.catalog import RunEntry, size_of
from results.reader import PointStatus
from results.run_folder import LOGS

_WIDE = 160
_MOST_NAMED = 4
# Statuses of points that lack repeats.
_LACKING = ("missing", "partial")
_COLUMNS = ("run", "date (UTC)", "commit", "points", "hosts", "networks", "size", "")
_RIGHT = {"hosts", "size"}


def _console() -> Screen:
    """Return a console as wide as the terminal, or 160 columns if there is none."""
    console = Screen(highlight=False)
    return console if console.is_terminal else Screen(highlight=False, width=_WIDE)


def show(entries: Sequence[RunEntry], where: str) -> None:
    """Print the runs of a folder, one row each, and the causes of unreadable ones."""
    console = _console()
    table = terminal_table(_COLUMNS, {*_COLUMNS} - _RIGHT, f"runs in {where}")
    for one in entries:
        lacks = "yellow" if one.missing or one.partial else ""
        style = "red" if one.problem or one.failed else lacks
        table.add_row(*map(cell, _cells(one)), style=style)
    console.print(table)
    for one in entries:
        if one.problem:
            console.print(line(f"{one.name}: {_trouble(one)}"), soft_wrap=True)


def _cells(one: RunEntry) -> tuple[str, ...]:
    marks = ["simulated"] * one.rehearsal + ["imported"] * one.imported
    marks += ["reported"] * one.reported
    return (
        one.name,
        one.date[:16].replace("T", " "),
        one.commit,
        "unreadable" if one.problem and not one.unread else _point_counts(one),
        str(one.hosts or ""),
        list_names(one.networks, _MOST_NAMED),
        format_size(one.bytes),
        ", ".join(marks),
    )


def _trouble(one: RunEntry) -> str:
    count = f"{one.unread} unreadable lines, the first: " if one.unread > 1 else ""
    return f"{count or 'unreadable: ' * (not one.unread)}{one.problem}"


def _point_counts(one: RunEntry) -> str:
    """Return '27 ok' or '25 ok, 1 failed, 1 missing, 2 partial'."""
    counts = (
        ("ok", one.ok),
        ("failed", one.failed),
        ("missing", one.missing),
        ("partial", one.partial),
        ("unreadable", one.unread),
    )
    return ", ".join(f"{count} {word}" for word, count in counts if count) or "none"


def _repeat_counts(points: Sequence[PointStatus]) -> str:
    """Return '7 ok of 12'; '' if there are no points."""
    total = sum(one.repeats for one in points)
    return f"{sum(one.good for one in points)} ok of {total}" if total else ""


def describe(
    folder: Path,
    entry: RunEntry,
    points: Sequence[PointStatus],
    environment: dict[str, Any],
    **more: str,
) -> None:
    """Print a run's facts, points, files, hosts and folders of logs.

    `more` are further facts by name: machine, digest.
    """
    console = _console()
    known = {"repeats": _repeat_counts(points), **more}
    for text in _fact_lines(folder, entry, environment, known):
        console.print(line(text), soft_wrap=True)
    names = ("point", "status", "repeats", "logs", "cause")
    table = terminal_table(names, names)
    for one in points:
        style = "" if one.status == "ok" else "yellow" if one.status in _LACKING else "red"
        logs = f"{LOGS}/{one.key}/" if (folder / LOGS / one.key).is_dir() else "none"
        cells = (one.name, one.status, f"{one.good} of {one.repeats}", logs, one.message)
        table.add_row(*map(cell, cells), style=style)
    console.print(table)
    for text in [*_files(folder), *_hosts(environment)]:
        console.print(line(text), soft_wrap=True)


def _fact_lines(
    folder: Path, entry: RunEntry, environment: dict[str, Any], more: dict[str, str]
) -> list[str]:
    marks = ["SIMULATED: scripted times"] * entry.rehearsal
    marks += ["imported: not measured by mxscale"] * entry.imported
    marks += ["reported by a program: not measured by mxscale"] * entry.reported
    facts = {
        "run": f"{folder.resolve().name} in {folder.resolve().parent}",
        "description": "; ".join([str(environment.get("description") or ""), *marks]).strip("; "),
        "date": entry.date,
        "commit": entry.commit or "unknown",
        "points": _point_counts(entry),
        "problem": _trouble(entry) if entry.problem else "",
        **more,
    }
    return [f"{name + ':':<13}{value}" for name, value in facts.items() if value]


def _files(folder: Path) -> list[str]:
    lines = ["files:"]
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            count = sum(one.is_file() for one in path.rglob("*"))
            lines.append(
                f"  {path.name + '/':<20} {format_size(size_of(path)):>10}  in {count} files"
            )
        elif not path.name.startswith("."):
            lines.append(f"  {path.name:<20} {format_size(path.lstat().st_size):>10}")
    return lines


def _hosts(environment: dict[str, Any]) -> list[str]:
    """Return the hosts' facts; * marks one that differs, with the hosts concerned."""
    hosts = environment.get("hosts")
    if not isinstance(hosts, dict) or not hosts:
        return []
    lines = [f"hosts: {', '.join(hosts)}"]
    for fact in host_facts(hosts):
        if not (fact.most or fact.others):
            continue
        who = "; ".join(f"{name}: {value or 'nothing'}" for name, value in fact.others.items())
        most = fact.most or "nothing"
        lines.append(f"* {fact.name}: {most} (but {who})" if who else f"  {fact.name}: {most}")
    return lines
