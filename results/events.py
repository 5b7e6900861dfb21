"""Where a run keeps what its processes said: logs/TRIAL/REPEAT/NAME.events.jsonl, or that .gz."""

import contextlib
import gzip
import json
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path

EVENTS = ".events.jsonl"
# Which host each process was on.
HOSTS = "hosts.json"
# Which record the folder is of.
RECORDED = "recorded.json"
# Of one process, before they are packed; a window is some 200 of them.
MOST_BYTES = 64 << 20


def opened(path: Path) -> BufferedIOBase:
    """A file of a run to read, unpacked where it is a .gz."""
    return gzip.open(path) if path.suffix == ".gz" else path.open("rb")


def lines_of(path: Path) -> Iterator[str]:
    """Its lines, unpacked where it is a .gz; OSError or EOFError where it is damaged."""
    with opened(path) as file:
        for line in file:
            yield line.decode("utf-8", "replace").rstrip("\n")


def recorded(folder: Path) -> str:
    """When the record began whose attempt left this folder; empty where that one left none."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        return str(json.loads((folder / RECORDED).read_text(encoding="utf-8"))["started"])
    return ""


def said(folder: Path) -> dict[str, Path]:
    """The events of each process in the folder of an attempt, by the process's name."""
    files = [*folder.glob(f"*{EVENTS}"), *folder.glob(f"*{EVENTS}.gz")]
    return {path.name.partition(EVENTS)[0]: path for path in sorted(files)}


def hosts_of(folder: Path) -> dict[str, str]:
    """The host of each process of the job whose logs the folder has, by the process's name."""
    known: dict[str, str] = {}
    with contextlib.suppress(OSError, ValueError):
        known = json.loads((folder / HOSTS).read_text(encoding="utf-8"))
    return known
