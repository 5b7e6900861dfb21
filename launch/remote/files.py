"""Files of a host, as a program that was sent there sees them: names are bytes.

A host's own idea of how names are encoded does not matter: in messages a name is UTF-8, with
surrogates for bytes that are not.
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

from launch.remote.errors import LaunchError

CHUNK = 1 << 20
_MOST_LINKS = 40


def encoded(name: str) -> bytes:
    """The bytes of a name in a message."""
    return name.encode("utf-8", "surrogateescape")


def shown(name: bytes) -> str:
    """A name as a line for a person has it: no line ends, no quotes."""
    return ascii(name.decode("utf-8", "replace"))[1:-1]


def folder(name: str) -> bytes:
    """The folder that a message names, absolute; '~' is the user's own there."""
    return os.path.abspath(os.path.expanduser(encoded(name)))


def size(path: bytes) -> int | None:
    """The size of a regular file that is no link; None where there is none."""
    found = status(path)
    return found.st_size if found and stat.S_ISREG(found.st_mode) else None


def status(path: bytes) -> os.stat_result | None:
    """What is known of a file or link; None where there is none."""
    try:
        return os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def opened(path: bytes, flags: int) -> int:
    """A descriptor of a regular file, with the mode of a new one; OSError for a link.

    LaunchError for what is no file, such as a pipe, which is not waited for.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise LaunchError(f"{shown(path)}: expected a file, found something else; remove it")
    return descriptor


def check_own(path: bytes, descriptor: int) -> None:
    """LaunchError if an open file is another user's, or has a second name."""
    found = os.fstat(descriptor)
    if found.st_uid != os.geteuid() or found.st_nlink != 1:
        raise LaunchError(
            f"{shown(path)}: expected a file of {_name(os.geteuid())} with one name, found one of "
            f"{_name(found.st_uid)} with {found.st_nlink}; remove it"
        )


def check_folder(folder: bytes) -> None:
    """LaunchError if another user but root may change what a folder is, or put files into it.

    Nor may they replace a folder above it, or a link on the way to it. A sticky folder on the way,
    such as /tmp, lets nobody replace what is not theirs.
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
                f"{shown(path)}: belongs to {_name(found.st_uid)}, expected "
                f"{_name(os.geteuid())} or root, for its owner could replace what is put there; "
                f"choose a folder of your own"
            )
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > _MOST_LINKS:
                raise LaunchError(f"{shown(folder)}: too many links on the way; name their target")
            target = os.readlink(path)
            rest += target.split(b"/")[::-1]
            at = b"/" if target.startswith(b"/") else at
        elif _is_shared(path, found) and not (any(rest) and found.st_mode & stat.S_ISVTX):
            raise LaunchError(
                f"{shown(path)}: other users may write there, and could replace what is put there; "
                f"'chmod go-w {shown(path)}', or choose a folder of your own"
            )
        else:
            at = path


def _is_shared(path: bytes, found: os.stat_result) -> bool:
    """Whether more than its owner may write: others, or a group that is not the owner's alone."""
    if found.st_mode & stat.S_IWOTH:
        return True
    if not found.st_mode & stat.S_IWGRP:
        return False
    try:  # the widest entry of an access list is shown as the group's
        has_list = "system.posix_acl_access" in os.listxattr(path)
    except OSError:
        has_list = False
    return has_list or not is_private(found.st_gid, found.st_uid)


def is_private(gid: int, owner: int) -> bool:
    """Whether a group has no member but a user whose own it is, as where the umask is 002."""
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
    """The contents of a file that is no link, at most CHUNK bytes at a time."""
    with open(opened(path, os.O_RDONLY), "rb") as file:
        while piece := file.read(CHUNK):
            yield piece


def crc(path: bytes) -> int:
    """CRC-32 of the contents, as zlib has it."""
    found = 0
    for piece in pieces(path):
        found = zlib.crc32(piece, found)
    return found


def is_below(name: str) -> bool:
    """Whether a name is that of a file below a folder."""
    return not {"", ".", ".."} & set(name.split("/")) and "\0" not in name


def leads_out(folder: bytes, path: bytes) -> bool:
    """Whether a path, with all links in it followed, is not below a folder."""
    root, found = os.path.realpath(folder), os.path.realpath(path)
    return found != root and not found.startswith(root.rstrip(b"/") + b"/")


def sync(path: bytes) -> None:
    """Returns once the names in a folder are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


STATE = ".mxscale-pushed"


class PushedFile(NamedTuple):
    """A file as it was last seen whole.

    size, crc      of its contents; crc32 by zlib
    mtime_ns       its time here, as the file system keeps it
    listed_ns      the time that the master listed, which the file system may have rounded
    put            whether a push wrote it, and may remove it
    """

    size: int
    mtime_ns: int
    listed_ns: int
    crc: int
    put: bool


def entries(content: bytes) -> dict[str, PushedFile]:
    """What a state file says of each file below its folder, its last line counting."""
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
            pass  # torn: its file is checked by its contents then
    return found


class PushState:
    """The state file of a folder, held until this process ends."""

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
                f"{shown(folder)}: another push works there; wait for its end (and where hosts "
                f"see one file system, push once)"
            ) from None
        except LaunchError:
            self.close()
            raise
        self._file.seek(0)
        content = self._file.read()
        self.entries = entries(content)
        if not content.endswith(b"\n"):
            self._file.write(b"\n")  # a line that was torn ends here

    def close(self) -> None:
        """Lets another push have the folder."""
        self._file.close()

    def note(self, name: str, entry: PushedFile) -> None:
        """Keeps what is known of a file."""
        if self.entries.get(name) != entry:
            self._append([name, *entry])
            self.entries[name] = entry

    def forget(self, name: str) -> None:
        """Keeps that a file is gone."""
        self._append([name])
        del self.entries[name]

    def _append(self, values: list[Any]) -> None:
        self._file.write(json.dumps(values).encode() + b"\n")


def is_noted(path: bytes, entry: PushedFile) -> bool:
    """Whether a file or link is as it was when it was noted."""
    found = status(path)
    return found is not None and (found.st_size, found.st_mtime_ns) == (entry.size, entry.mtime_ns)
