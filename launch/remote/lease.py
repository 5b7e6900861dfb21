"""The lease of a host: which controller's agent it works for. One at a time for each user.

A lease is an abstract Unix socket: no file that another user could leave behind or replace, and
gone with its process. Its name ends at random, so that nobody can take it first; all of them are
listed in /proc/net/unix. Whose each is the kernel says (SO_PEERCRED). What a lease of this user
answers is believed; a lease of another user is named by user and process, not read, and keeps
nobody out.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import json
import os
import pwd
import select
import socket
import struct
import threading
import time

from launch.remote import limits
from launch.remote.errors import LaunchError

# What a probe does not need is not loaded: to start one is most of the time that it takes.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TRIES = 4
_MOST_BYTES, _MOST_WORD = 65536, 200
_MOST_OTHERS, _BACKLOG = 20, 64
_CREDENTIALS = struct.Struct("3i")
_SOCKETS = "/proc/net/unix"


def _prefix() -> bytes:
    return f"mxscale-{socket.gethostname()}.lease.".encode()


class Lease:
    """A lease that this process holds for `owner`, until `close` or its own end."""

    def __init__(self, listener: socket.socket, owner: dict[str, Any]) -> None:
        self._listener = listener
        self._text = json.dumps(owner).encode()

    def fileno(self) -> int:
        """Readable when somebody asks whose lease it is."""
        return self._listener.fileno()

    def answer(self) -> None:
        """Says whose lease it is to those of this user who ask; never waits for them."""
        for _ in range(_BACKLOG):
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                try:
                    connection.settimeout(0.0)
                    if _peer(connection)[1] == os.geteuid():
                        connection.sendall(self._text)
                except OSError:
                    pass  # they do not ask any more, or do not listen

    def close(self) -> None:
        """Gives the host back."""
        self._listener.close()


def take(owner: dict[str, Any]) -> tuple[Lease | None, dict[str, Any]]:
    """The lease; or None and what is known of the one who has it. OSError if it cannot be held."""
    found: dict[str, Any] = {}
    for _ in range(_TRIES):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        own = _prefix() + os.urandom(8).hex().encode()
        try:
            listener.bind(b"\0" + own)
            listener.listen(_BACKLOG)
            listener.setblocking(False)
            # Both of two that come at once see each other here, never neither: both try again.
            found = _holder(own)
        except BaseException:
            listener.close()
            raise
        if not found:
            return Lease(listener, owner), {}
        listener.close()
        if len(found) > 1:  # it has answered, so that it holds the lease
            break
        time.sleep(limits.LEASE_RETRY_SECONDS * (1 + os.urandom(1)[0]) / 256)  # not both at once
    return None, found


def hold(owner: dict[str, Any] | None) -> None:
    """Has the lease for `owner`, if anybody, as long as this process lives.

    Raises LaunchError if another has it.
    """
    if owner is None:
        return
    lease, other = take(owner)
    if lease is None:
        raise LaunchError(f"another master has this host: {described(other)}")

    def answer_all() -> None:
        while True:
            select.select([lease], [], [])
            lease.answer()

    threading.Thread(target=answer_all, daemon=True).start()


def holder() -> dict[str, Any]:
    """What the one of this user who has the lease says, with its `pid`; empty if nobody has it."""
    return _holder(b"")


def others() -> list[dict[str, Any]]:
    """The other users who hold leases: `user` and `pid`, which is 0 if it is not visible here."""
    found = []
    for name in sorted(sockets()):
        _, pid, uid = _asked(name, read=False)
        if uid not in (None, os.geteuid()):
            found.append({"user": _user(uid), "pid": pid})
    return found[:_MOST_OTHERS]


def _holder(own: bytes) -> dict[str, Any]:
    """What another lease of this user than `own` says, with its `pid`; empty if there is none."""
    found: dict[str, Any] = {}
    for name in sorted(sockets()):
        if name != own:
            owner, pid, uid = _asked(name, read=True)
            if uid == os.geteuid():
                found = {**owner, "pid": pid}
                if owner:
                    break
    return found


def sockets() -> dict[bytes, set[bytes]]:
    """The names of this host's leases, also of what only calls itself so, and their sockets."""
    prefix = b"@" + _prefix()
    found: dict[bytes, set[bytes]] = {}
    try:
        with open(_SOCKETS, "rb") as file:  # noqa: PTH123
            for line in file:
                *_, number, name = line.split(None, 7) if prefix in line else (b"", b"")
                if name.startswith(prefix):
                    found.setdefault(name.strip()[1:], set()).add(number)
    except OSError:
        pass
    return found


def _asked(name: bytes, *, read: bool) -> tuple[dict[str, Any], int, int | None]:
    """What a lease says, if it is this user's and is to be read; its process and its user.

    No user if nobody has it any more, or it cannot be asked.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(limits.LEASE_ANSWER_SECONDS)
        try:
            asking.connect(b"\0" + name)
            pid, uid = _peer(asking)
        except BlockingIOError:  # so many ask that nobody else can: another user may see to that
            pid = _own_process(name)
            return {}, pid, os.geteuid() if pid else None
        except OSError:
            return {}, 0, None
        return read_answer(asking) if read and uid == os.geteuid() else {}, pid, uid


def _own_process(name: bytes) -> int:
    """The process of this user that has the socket of this name open; 0 if none has."""
    wanted = {f"socket:[{number.decode()}]" for number in sockets().get(name, ())}
    for pid in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        folder = f"/proc/{pid}/fd"
        try:
            if os.stat(folder).st_uid != os.geteuid():  # noqa: PTH116
                continue
            for one in os.listdir(folder):  # noqa: PTH208
                if os.readlink(f"{folder}/{one}") in wanted:  # noqa: PTH115
                    return int(pid)
        except OSError:
            continue
    return 0


def _peer(connection: socket.socket) -> tuple[int, int]:
    """Process and user at the other end, by the kernel."""
    text = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(text)
    return pid, uid


def read_answer(asking: socket.socket) -> dict[str, Any]:
    """The owner that a holder sends; nothing if it is held, or no program of ours."""
    text, deadline = b"", time.monotonic() + limits.LEASE_ANSWER_SECONDS
    try:
        while len(text) < _MOST_BYTES and time.monotonic() < deadline:
            piece = asking.recv(4096)
            if not piece:
                break
            text += piece
        values = json.loads(text)
    except (OSError, ValueError, RecursionError):
        return {}
    found: dict[str, Any] = {}
    if not isinstance(values, dict):
        return found
    for name in ("user", "master", "since"):
        value = values.get(name)
        if isinstance(value, str) and value.isprintable():
            found[name] = value[:_MOST_WORD]
    process = values.get("process")
    if type(process) is int and 0 <= process < 1 << 31:
        found["process"] = process
    return found


def _user(uid: int | None) -> str:
    try:
        return f"{pwd.getpwuid(uid or 0).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def described(owner: dict[str, Any]) -> str:
    """Whose lease it is, in words."""
    if "user" not in owner:
        return (
            f"a program of this user there (process {owner.get('pid') or 'unknown'} of that host), "
            f"which does not answer"
        )
    return (
        f"{owner['user']} on {owner.get('master', 'some machine')} (process "
        f"{owner.get('process', 'unknown')}) since {owner.get('since', 'some time')}"
    )


def listed(found: list[dict[str, Any]]) -> str:
    """Other users who hold leases, in words; empty if there are none."""
    return ", ".join(f"{one['user']}, process {one['pid'] or 'unknown'} there" for one in found)
