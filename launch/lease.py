"""The lease of a host: which controller's agent it works for. One at a time.

Standard library only and Python 3.8 or newer, as the agent that it is sent with. A lease is an
abstract Unix socket: it ends with the process that holds it, however that ends, and it is no file
that another user could leave behind, own or replace. Whoever connects reads whose it is; the
kernel says which process and user hold it.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import json
import pwd
import socket
import struct
import threading
import time

from launch.errors import LaunchError

# What a probe does not need is not loaded: to start one is most of the time that it takes.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TRIES, _TRY_SECONDS = 4, 0.05
_ANSWER_SECONDS, _MOST_BYTES = 1.0, 65536
_CREDENTIALS = struct.Struct("3i")


def name() -> str:
    """The socket's name: the host's own, for all its users."""
    return f"\0mxscale-{socket.gethostname()}.lease"


class Lease:
    """A lease that this process holds for `who`, until `close` or its own end."""

    def __init__(self, listener: socket.socket, who: dict[str, Any]) -> None:
        self._listener = listener
        self._text = json.dumps(who).encode()

    def fileno(self) -> int:
        """Readable when somebody asks whose lease it is."""
        return self._listener.fileno()

    def answer(self) -> None:
        """Says whose lease it is to one who asks; never waits for them."""
        try:
            connection, _ = self._listener.accept()
            with connection:
                connection.settimeout(0.0)
                connection.sendall(self._text)
        except OSError:
            pass  # they do not ask any more, or do not listen

    def close(self) -> None:
        """Gives the host back."""
        self._listener.close()


def take(who: dict[str, Any]) -> tuple[Lease | None, dict[str, Any]]:
    """The lease; or None and what is known of the one who has it. OSError if neither is."""
    for _ in range(_TRIES):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(name())
            listener.listen(64)
            return Lease(listener, who), {}
        except OSError as error:
            listener.close()
            found = holder()
            if found:
                return None, found
            refused = error
        time.sleep(_TRY_SECONDS)  # whoever had it has just ended
    raise refused


def hold(who: dict[str, Any] | None) -> None:
    """Has the lease for `who`, if anybody, as long as this process lives.

    Raises LaunchError if another has it.
    """
    if who is None:
        return
    lease, other = take(who)
    if lease is None:
        raise LaunchError(f"another master has this host: {described(other)}")
    threading.Thread(target=_answer_all, args=(lease,), daemon=True).start()


def _answer_all(lease: Lease) -> None:
    while True:
        lease.answer()


def holder() -> dict[str, Any]:
    """What the one who has the lease says, with its `pid` and `user_there`; empty if nobody has it.

    The pid is 0 if it is not visible from here.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(_ANSWER_SECONDS)
        try:
            asking.connect(name())
        except ConnectionRefusedError:
            return {}
        except OSError:  # so many ask that it cannot be reached
            return {"pid": 0}
        try:
            text = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            pid, uid, _ = _CREDENTIALS.unpack(text)
            return {**_said(asking), "pid": pid, "user_there": _user(uid)}
        except OSError:
            return {"pid": 0}


def _said(asking: socket.socket) -> dict[str, Any]:
    """What a holder says of itself; nothing if it is held, or no program of ours."""
    text, deadline = b"", time.monotonic() + _ANSWER_SECONDS
    try:
        while len(text) < _MOST_BYTES and time.monotonic() < deadline:
            piece = asking.recv(4096)
            if not piece:
                break
            text += piece
        values = json.loads(text)
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def described(who: dict[str, Any]) -> str:
    """Whose lease it is, in words."""
    if "user" not in who and who.get("user_there"):
        return (
            f"a program of user {who['user_there']} there (process {who['pid'] or 'unknown'} of "
            f"that host), which does not answer as ours do"
        )
    return (
        f"{who.get('user', 'somebody')} on {who.get('master', 'some machine')} (process "
        f"{who.get('process', 'unknown')}) since {who.get('since', 'some time')}"
    )
