"""The onlooker: says how a folder on a host differs from what the master has; changes nothing.

Standard library only and Python 3.8 or newer, as it is sent over the line.

    to it    {"do": "look", "into", "files": [[name, size, crc or null], ...],
             "others": [name, ...]}
    from it  {"say": "seen", "differs": [[name, how], ...], "strange": [name, ...]}

`strange` are those of the others that are there though no push put them.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import os
import sys
from typing import Any

from launch import paths
from launch.command import NOTHING
from launch.errors import LaunchError
from launch.incoming import Master
from launch.pushed import STATE, Entry, entries, is_noted

_SHAPES: dict[str, dict[str, Any]] = {
    "look": {"into": str, "files": [(str, int, {int, NOTHING})], "others": [str]}
}


def _differences(folder: bytes, files: list[Any]) -> list[list[str]]:
    """Names and what is wrong with each; checksums are compared where one is given."""
    found = []
    for name, size, crc in files:
        how = _difference(os.path.join(folder, paths.encoded(name)), size, crc)
        if how:
            found.append([name, how])
    return found


def _difference(path: bytes, size: int, crc: int | None) -> str:
    if not os.path.isfile(path):
        return "is not there"
    if os.path.getsize(path) != size:
        return f"has {os.path.getsize(path)} bytes, expected {size}"
    return "" if crc is None or paths.crc(path) == crc else "has other contents"


def _strange(folder: bytes, names: list[str]) -> list[str]:
    state = os.path.join(folder, STATE.encode())
    noted = entries(b"".join(paths.pieces(state))) if os.path.isfile(state) else {}
    found = []
    for name in names:
        path, entry = os.path.join(folder, paths.encoded(name)), noted.get(name)
        if os.path.lexists(path) and not _is_ours(path, entry):
            found.append(name)
    return found


def _is_ours(path: bytes, entry: Entry | None) -> bool:
    return entry is not None and entry.put and is_noted(path, entry)


def main() -> None:
    """Answers one question on stdin and stdout."""
    master = Master(_SHAPES)
    folder = b"."
    try:
        message = master.message()
        folder = paths.folder(message["into"])
        differs = _differences(folder, message["files"])
        master.say(say="seen", differs=differs, strange=_strange(folder, message["others"]))
    except OSError as error:
        where = paths.shown(folder)
        master.say(say="failed", why=f"{where}: cannot be read ({error.strerror})")
        sys.exit(1)
    except LaunchError as error:
        master.say(say="failed", why=str(error))
        sys.exit(1)
