"""Push of the controller's files to hosts: only missing files, hosts in parallel."""

import os
import queue
import stat
import threading
import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from launch.hosts import Host, lease_owner
from launch.remote.errors import LaunchError, error_line
from launch.remote.files import crc
from launch.transport.client import RemoteProgram
from launch.transport.line import Starter
from launch.transport.protocol import clean

_CHUNK = 1 << 20
_AT_ONCE = 8


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A file to copy, as it was listed.

    path   the local file
    name   its name below the folder on the host
    size   in bytes
    mode   its permissions
    link   the target if it is a symbolic link
    """

    path: Path
    name: str
    size: int
    mtime_ns: int
    mode: int
    link: str = ""


@dataclass(frozen=True, kw_only=True)
class PushProgress:
    """Progress of a host's push or fetch of `files` files, in bytes.

    `other` are the files that the host had complete, with different contents.
    """

    host: str
    step: str
    files: int
    done: int
    total: int
    other: tuple[str, ...] = ()


Pushing = Generator[PushProgress]


def contents(path: Path, name: str) -> Piece:
    """Return a file to copy under a name; links are followed.

    LaunchError if it is no file.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise LaunchError(error_line(path, problem=f"cannot be read ({error.strerror})")) from error
    if not stat.S_ISREG(found.st_mode):
        raise LaunchError(error_line(path, expected="a regular file", got="something else"))
    return Piece(
        path=path,
        name=name,
        size=found.st_size,
        mtime_ns=found.st_mtime_ns,
        mode=found.st_mode & 0o777,
    )


def in_tree(root: Path, name: str) -> Piece:
    """Return a file of a tree to copy; a link within the tree stays a link."""
    path = root / name
    if path.is_symlink():
        target = str(path.readlink())
        leads = os.path.normpath(Path(name).parent / target)
        inside = path.resolve().is_relative_to(root.resolve())
        if leads.split("/")[0] not in {"", ".."} and inside:
            return Piece(path=path, name=name, size=0, mtime_ns=0, mode=0, link=target)
    return contents(path, name)


def push(  # noqa: PLR0913 - what, where to, and two ways
    pieces: Sequence[Piece],
    host: Host,
    start: Starter,
    into: str,
    *,
    exact: bool = False,
    verify: bool = False,
) -> Pushing:
    """Copy the files that a folder of a host lacks.

    The next push resumes an interrupted one.

    `into` is relative to the host's checkout. With `exact`, files of earlier pushes that are not
    among these are removed. With `verify` every file is read on both sides, even if its size and
    time are as an earlier push left them. Raises LaunchError, which names the host.
    """
    with closing(RemoteProgram(host, start, "receiver", files=len(pieces))) as receiver:
        listed = [(one.name, one.size, one.mtime_ns, one.mode, one.link) for one in pieces]
        folder = str(PurePosixPath(host.tree, into))
        asked = {"into": folder, "exact": exact, "verify": verify, "files": listed}
        receiver.send({"do": "take", **asked, "owner": lease_owner(host)})
        there: list[Any] = []
        for say, values in receiver.stream("has"):
            if say == "beat":
                yield _moved(host, "comparing", 1, values["done"], values["total"])
            there = values.get("files", [])
        fits = len(there) == len(pieces) and all(
            has in ("same", None) or has.get("part", 0) <= piece.size
            for piece, has in zip(pieces, there, strict=True)
        )
        if not fits:
            raise receiver.protocol_error(
                "has: expected the state of each file, got something else"
            )
        missing = yield from _missing(pieces, there, receiver, host)
        yield from _copied(missing, receiver, host)
        receiver.send({"do": "finish"})
        other = tuple(one.piece.name for one in missing if one.other)
        for _ in receiver.stream("finished"):
            last = _moved(host, "copying", len(missing), *[_bytes(missing)] * 2)
            yield replace(last, other=other)


@dataclass(frozen=True, kw_only=True)
class _MissingFile:
    """A file that a host lacks from byte `start` on; `crc` is that of its part.

    `other`: the host has a complete file with different contents.
    """

    at: int
    piece: Piece
    start: int = 0
    crc: int = 0
    other: bool = False


def _moved(host: Host, step: str, files: int, done: int, total: int) -> PushProgress:
    return PushProgress(host=host.name, step=step, files=files, done=done, total=total)


def _bytes(missing: Iterable[_MissingFile]) -> int:
    return sum(one.piece.size - one.start for one in missing)


def _missing(
    pieces: Sequence[Piece], there: Sequence[Any], receiver: RemoteProgram, host: Host
) -> Generator[PushProgress, None, list[_MissingFile]]:
    """Return the files that a host lacks, by the checksums of those it has."""
    found = []
    for at, (piece, has) in enumerate(zip(pieces, there, strict=True)):
        if has == "same":
            continue
        same = bool(has) and (yield from _is_same(piece, has, host))
        if same and "part" not in has:
            receiver.send({"do": "keep", "at": at})
        elif same:
            found.append(_MissingFile(at=at, piece=piece, start=has["part"], crc=has["crc"]))
        else:
            found.append(_MissingFile(at=at, piece=piece, other=bool(has) and "part" not in has))
    return found


def _is_same(piece: Piece, has: dict[str, int], host: Host) -> Generator[PushProgress, None, bool]:
    """Return whether the host's file is the local one, or its beginning."""
    size = has.get("part", piece.size)
    crc = done = 0
    for data in _read(piece, 0, size):
        crc, done = zlib.crc32(data, crc), done + len(data)
        yield _moved(host, "comparing", 1, done, size)
    return crc == has["crc"]


def _read(piece: Piece, start: int, end: int) -> Iterator[bytes]:
    """Yield a file's bytes from start to end.

    LaunchError if it has changed since listed.
    """
    try:
        # Without O_NONBLOCK, opening a named pipe in place of the file would block.
        with open(os.open(piece.path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise LaunchError(
                    error_line(piece.path, problem="changed during the copy", fix="Push again")
                )
            file.seek(start)
            while start < end and (data := file.read(min(end - start, _CHUNK))):
                yield data
                start += len(data)
            found = os.fstat(file.fileno())
    except OSError as error:
        raise LaunchError(
            error_line(piece.path, problem=f"cannot be read ({error.strerror})")
        ) from error
    if start < end or (found.st_size, found.st_mtime_ns) != (piece.size, piece.mtime_ns):
        raise LaunchError(
            error_line(piece.path, problem="changed during the copy", fix="Push again")
        )


def _copied(missing: Sequence[_MissingFile], receiver: RemoteProgram, host: Host) -> Pushing:
    done, total = 0, _bytes(missing)
    yield _moved(host, "copying", len(missing), done, total)
    for one in missing:
        crc = one.crc
        receiver.send({"do": "file", "at": one.at, "from": one.start})
        for data in _read(one.piece, one.start, one.piece.size):
            receiver.send({"do": "data", "bytes": len(data)}, data)
            crc, done = zlib.crc32(data, crc), done + len(data)
            yield _moved(host, "copying", len(missing), done, total)
        receiver.send({"do": "end", "crc": crc})


def side_by_side(pushes: Sequence[Pushing], at_once: int = _AT_ONCE) -> Iterator[PushProgress]:
    """Run several pushes at a time, and yield their progress.

    A failure ends no other.

    Raises LaunchError at the end, with the errors of all that failed.
    """
    inbox: queue.Queue[PushProgress | None] = queue.Queue()
    stop = threading.Event()

    def follow(one: Pushing) -> None:
        try:
            with closing(one):
                for moved in one:
                    inbox.put(moved)
                    if stop.is_set():
                        return
        finally:
            inbox.put(None)

    with ThreadPoolExecutor(at_once) as pool:
        running = [pool.submit(follow, one) for one in pushes]
        try:
            for _ in running:
                yield from iter(inbox.get, None)
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
    failed = [str(error) for one in running if isinstance(error := one.exception(), LaunchError)]
    others = [error for one in running if (error := one.exception())]
    if failed:
        raise LaunchError("; ".join(failed))
    if others:
        raise others[0]


def differences(
    pieces: Sequence[Piece], host: Host, start: Starter, into: str, *, whole: bool = False
) -> list[str]:
    """Return which of these files differ on a host or are missing: 'a.rec is missing'.

    It compares names and sizes, and the contents of .json files, which have the shards' checksums;
    with `whole` all contents. Raises LaunchError, which names the host.
    """
    crcs = [_crc(one) if whole or one.path.suffix == ".json" else None for one in pieces]
    files = [(one.name, one.size, crc) for one, crc in zip(pieces, crcs, strict=True)]
    listed = {clean(one.name) for one in pieces}
    found = _compared(host, start, into, files=files, others=[])["differs"]
    return [f"{name} {why}" for name, why in found if name in listed]


def strangers(names: Iterable[str], host: Host, start: Starter, into: str) -> list[str]:
    """Return which of these files exist on a host, but not by a push."""
    asked = list(names)
    known = set(map(clean, asked))
    found = _compared(host, start, into, files=[], others=asked)["strange"]
    return [name for name in found if name in known]


def _compared(host: Host, start: Starter, into: str, **asked: Any) -> dict[str, Any]:
    count = sum(map(len, (asked["files"], asked["others"])))
    with closing(RemoteProgram(host, start, "receiver", files=count)) as receiver:
        folder = str(PurePosixPath(host.tree, into))
        receiver.send({"do": "compare", "into": folder, **asked})
        *_, (_, last) = receiver.stream("compared")
    return last


@cache
def _crc(piece: Piece) -> int:
    """Return the CRC-32 of a local file, read once for all hosts.

    LaunchError if unreadable.
    """
    try:
        return crc(os.fsencode(piece.path))
    except OSError as error:
        raise LaunchError(
            error_line(piece.path, problem=f"cannot be read ({error.strerror})")
        ) from error
