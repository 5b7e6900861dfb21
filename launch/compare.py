"""How folders of hosts compare with files here; nothing is copied or changed."""

import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import cache
from pathlib import PurePosixPath
from typing import Any

from launch.errors import LaunchError
from launch.exchange import Exchange
from launch.hosts import Host
from launch.paths import crc
from launch.protocol import clean
from launch.push import Piece
from launch.transport import Start

_LOOK = ("errors", "command", "paths", "pushed", "incoming", "look")


def differences(
    pieces: Sequence[Piece], host: Host, start: Start, into: str, *, whole: bool = False
) -> list[str]:
    """What of these files is another one on a host, or not there: 'a.rec is not there'.

    Names and sizes are compared, and the contents of .json files, which hold the checksums of the
    shards beside them; of all files if `whole`. Raises LaunchError, naming the host.
    """
    files = [(one.name, one.size, _crc(one, whole=whole)) for one in pieces]
    listed = {clean(one.name) for one in pieces}
    found = _seen(host, start, into, files=files, others=[])["differs"]
    return [f"{name} {how}" for name, how in found if name in listed]


def strangers(names: Iterable[str], host: Host, start: Start, into: str) -> list[str]:
    """Which of these files are in a folder of a host though no push put them there."""
    asked = list(names)
    known = set(map(clean, asked))
    found = _seen(host, start, into, files=[], others=asked)["strange"]
    return [name for name in found if name in known]


def _seen(host: Host, start: Start, into: str, **asked: Any) -> dict[str, Any]:
    count = sum(map(len, (asked["files"], asked["others"])))
    with closing(Exchange(host, start, _LOOK, count)) as exchange:
        folder = str(PurePosixPath(host.tree, into))
        exchange.send({"do": "look", "into": folder, **asked})
        *_, (_, last) = exchange.hear("seen")
    return last


def _crc(piece: Piece, *, whole: bool) -> int | None:
    return crc_of(piece) if whole or piece.path.suffix == ".json" else None


@cache
def crc_of(piece: Piece) -> int:
    """CRC-32 of a file here, read once for all hosts; LaunchError if it cannot be read."""
    try:
        return crc(os.fsencode(piece.path))
    except OSError as error:
        raise LaunchError(f"{piece.path}: cannot be read ({error.strerror})") from error
