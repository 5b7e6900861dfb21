"""Files of a host: checks, checksums and the state of pushes; names are bytes.

The host's own encoding of names does not matter: in messages a name is UTF-8, with surrogates for
other bytes.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import fcntl
import grp
import json
import os
import pwd
import stat
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from launch.remote.errors import LaunchError, error_line

CHUNK = 1 << 20
_MOST_LINKS = 40


def encoded(name: str) -> bytes:
    """Return the bytes of a name in a message."""
    return name.encode("utf-8", "surrogateescape")


def shown(name: bytes) -> str:
    """Return a name for an error message: no line ends, no quotes."""
    return ascii(name.decode("utf-8", "replace"))[1:-1]


def folder(name: str) -> bytes:
    """Return the absolute path of a folder in a message; '~' is the user's home."""
    return os.path.abspath(os.path.expanduser(encoded(name)))


def size(path: bytes) -> int | None:
    """Return the size of a regular file that is no link; None if there is none."""
    found = status(path)
    return found.st_size if found and stat.S_ISREG(found.st_mode) else None


def status(path: bytes) -> os.stat_result | None:
    """Return the status of a file or link; None if there is none."""
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def opened(path: bytes, flags: int) -> int:
    """Open a regular file; a new one gets mode 0600. OSError for a link.

    LaunchError for anything else, such as a pipe, without blocking.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise LaunchError(
            error_line(
                shown(path), expected="a regular file", got="something else", fix="Remove it"
            )
        )
    return descriptor


def check_own(path: bytes, descriptor: int) -> None:
    """Raise LaunchError if an open file belongs to another user, or has a second name."""
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid() or found.st_nlink != 1:
        raise LaunchError(
            error_line(
                shown(path),
                expected=f"a file of user {_name(os.geteuid())} with 1 hard link",
                got=f"one of {_name(found.st_uid)} with {found.st_nlink}",
                fix="Remove it",
            )
        )


def check_folder(folder: bytes) -> None:
    """Raise LaunchError if a user except root can replace a folder or write to it.

    The same holds for the folders above it and for links on its path. A sticky folder above it,
    such as /tmp, is safe.
    """
    at, rest, links = b"/", folder.split(b"/")[::-1], 0
    while rest:
        name = rest.pop()
        path = os.path.dirname(at) if name == b".." else os.path.join(at, name)
        found = status(path)
        if found is None:
            return
        if found.st_uid not in (0, os.geteuid()):
            raise LaunchError(
                error_line(
                    shown(path),
                    expected=f"owner {_name(os.geteuid())} or root",
                    got=f"{_name(found.st_uid)}, who could replace the files",
                    fix="Choose a folder of your own",
                )
            )
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > _MOST_LINKS:
                raise LaunchError(
                    error_line(
                        shown(folder),
                        problem="too many symbolic links on the path",
                        fix="Name their target",
                    )
                )
            target = os.readlink(path)
            rest += target.split(b"/")[::-1]
            at = b"/" if target.startswith(b"/") else at
        elif _is_shared(path, found) and not (any(rest) and found.st_mode & stat.S_ISVTX):
            raise LaunchError(
                error_line(
                    shown(path),
                    problem="other users may write there and could replace the files",
                    fix=f"Choose a folder of your own, or run: chmod go-w {shown(path)}",
                )
            )
        else:
            at = path


def _is_shared(path: bytes, found: os.stat_result) -> bool:
    """Return whether users other than the owner may write: others, or a shared group."""
    if found.st_mode & stat.S_IWOTH:
        return True
    if not found.st_mode & stat.S_IWGRP:
        return False
    try:  # the group bits show the widest entry of an access list
        has_list = "system.posix_acl_access" in os.listxattr(path)
    except OSError:
        has_list = False
    return has_list or not is_private(found.st_gid, found.st_uid)


def is_private(gid: int, owner: int) -> bool:
    """Return whether a group is its owner's private one, as usual with umask 002."""
    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return False
    own = gid == owner or group.gr_name == _name(owner)
    first = {user.pw_name for user in pwd.getpwall() if user.pw_gid == gid}  # not in gr_mem
    return own and first.union(group.gr_mem) <= {_name(owner)}


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def pieces(path: bytes) -> Iterator[bytes]:
    """Yield the contents of a file that is no link, in pieces of at most CHUNK bytes."""
    with open(opened(path, os.O_RDONLY), "rb") as file:
        while piece := file.read(CHUNK):
            yield piece


def crc(path: bytes) -> int:
    """Return the CRC-32 of the contents, as zlib computes it."""
    found = 0
    for piece in pieces(path):
        found = zlib.crc32(piece, found)
    return found


def is_below(name: str) -> bool:
    """Return whether a name is that of a file below a folder."""
    return not {"", ".", ".."} & set(name.split("/")) and "\0" not in name


def leads_out(folder: bytes, path: bytes) -> bool:
    """Return whether a path, with its links followed, is outside of a folder."""
    root, found = os.path.realpath(folder), os.path.realpath(path)
    return found != root and not found.startswith(root.rstrip(b"/") + b"/")


def sync(path: bytes) -> None:
    """Write the names in a folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


STATE = ".mxscale-pushed"


class PushedFile(NamedTuple):
    """State of a file when it was last complete.

    size, crc      of its contents; zlib's crc32
    mtime_ns       its time on the host, as the file system keeps it
    listed_ns      its time on the controller, which the file system may have rounded
    put            whether a push wrote it, and may remove it
    """

    size: int
    mtime_ns: int
    listed_ns: int
    crc: int
    put: bool


def entries(content: bytes) -> dict[str, PushedFile]:
    """Parse a state file: the last line of each file below its folder counts."""
    found: dict[str, PushedFile] = {}
    for line in content.split(b"\n"):
        try:
            name, *values = json.loads(line)
            if not (isinstance(name, str) and is_below(name)):
                continue
            found.pop(name, None)
            if list(map(type, values)) == [int, int, int, int, bool]:
                found[name] = PushedFile(*values)
        except (ValueError, TypeError, RecursionError):
            pass  # torn: the file is compared by its contents
    return found


class PushState:
    """State file of a folder, locked until this process ends."""

    def __init__(self, folder: bytes) -> None:
        path = os.path.join(folder, STATE.encode())
        descriptor = opened(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        self._file = open(descriptor, "a+b", buffering=0)  # noqa: SIM115 - held as long as this is
        try:
            check_own(path, descriptor)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise LaunchError(
                error_line(
                    shown(folder),
                    problem="another push is writing to this folder",
                    fix="Wait for it to end; if the hosts share a file system, use --shared",
                )
            ) from None
        except LaunchError:
            self.close()
            raise
        self._file.seek(0)
        content = self._file.read()
        self.entries = entries(content)
        if not content.endswith(b"\n"):
            self._file.write(b"\n")  # ends a torn line

    def close(self) -> None:
        """Release the folder for another push."""
        self._file.close()

    def note(self, name: str, entry: PushedFile) -> None:
        """Record the state of a file."""
        if self.entries.get(name) != entry:
            self._append([name, *entry])
            self.entries[name] = entry

    def forget(self, name: str) -> None:
        """Record that a file was removed."""
        self._append([name])
        del self.entries[name]

    def _append(self, values: list[Any]) -> None:
        self._file.write(json.dumps(values).encode() + b"\n")


def is_noted(path: bytes, entry: PushedFile) -> bool:
    """Return whether a file or link is unchanged since it was recorded."""
    found = status(path)
    return found is not None and (found.st_size, found.st_mtime_ns) == (entry.size, entry.mtime_ns)
