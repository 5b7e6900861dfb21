"""The onlooker: says which files of a folder on a host are not those that the master has.

Standard library only and Python 3.8 or newer, as it is sent over the line.

    to it    {"do": "look", "into", "files": [[name, size, crc or null], ...]}
    from it  {"say": "differs", "files": [[name, how], ...]}
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import os
from typing import Any

from launch import paths
from launch.incoming import Master


def _differences(message: dict[str, Any]) -> list[list[str]]:
    """Names and what is wrong with each; checksums are compared where one is given."""
    folder = paths.folder(message["into"])
    found = []
    for name, size, crc in message["files"]:
        how = _difference(os.path.join(folder, paths.encoded(name)), size, crc)
        if how:
            found.append([name, how])
    return found


def _difference(path: bytes, size: int, crc: int | None) -> str:
    if not os.path.isfile(path):
        return "is not there"
    if os.path.getsize(path) != size:
        return f"has {os.path.getsize(path)} bytes, expected {size}"
    return "" if crc in {None, paths.crc(path)} else "has other contents"


def main() -> None:
    """Answers one question on stdin and stdout."""
    master = Master()
    master.say(say="differs", files=_differences(master.message()))
