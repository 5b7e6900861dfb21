"""Probe: collects the facts of one host and tests its connections.

One JSON line each:

    to it    {"do": "facts", "trees", "python", "folder", "variables"} | {"do": "listen", "address"}
             | {"do": "contents", "tree", "python", "data", "verify"} | {"do": "where"}
             | {"do": "disk", "tree", "python", "data"}
             | {"do": "usage"}
             | {"do": "reach", "targets": {name: [address, port]}}
             | {"do": "measure", "target"}
    from it  {"say": "facts", ...} | "where" addresses, reached | "contents" contents
             | "disk" data_bytes, ... | "listening" port | "usage" programs, cores, of
             | "reached" failed | "measured" mb_s, ms | "failed" why | "broken" why

Each answer has the number `n` of its request. `broken` reports an unexpected error.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import errno
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time

from launch.remote import commands, facts, lease, limits
from launch.remote.errors import ProtocolError

TYPE_CHECKING = False  # as in launch/remote/lease.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_BLOCK, _ROUNDS = 1 << 20, 20
_MEASURE_SECONDS = 1.0
_ECHO, _SINK = b"e", b"s"


def _facts(asked: dict[str, Any]) -> dict[str, Any]:
    return {
        "say": "facts",
        **facts.machine_facts(asked["folder"]),
        **facts.checkout_facts(asked["trees"], asked["python"]),
        "variables": facts.variables(asked.get("variables", [])),
        "holder": lease.holder(),
        "others": lease.others(),
        "time": time.time(),
    }


def _where(_: dict[str, Any]) -> dict[str, Any]:
    return {"say": "where", "addresses": facts.addresses(), "reached": facts.reached()}


def _usage(_: dict[str, Any]) -> dict[str, Any]:
    return {"say": "usage", **facts.usage()}


def _contents(asked: dict[str, Any]) -> dict[str, Any]:
    """Return the job's data on this host, as its own checkout reads them."""
    try:
        return {"say": "contents", "contents": facts.contents(**asked)}
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {"say": "failed", "why": facts.last_line(error)}


def _disk(asked: dict[str, Any]) -> dict[str, Any]:
    """Measure the disk of the data on this host, by its own checkout."""
    try:
        return {"say": "disk", **facts.disk(**asked)}
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {"say": "failed", "why": facts.last_line(error)}


def _listen(asked: dict[str, Any]) -> dict[str, Any]:
    """Accept connections on a random port, as the servers and workers of a job do."""
    try:
        server = socket.create_server((asked["address"], 0), backlog=1024)
    except OSError as error:
        return {"say": "failed", "why": error.strerror or str(error)}
    threading.Thread(target=_serve, args=(server,), daemon=True).start()
    return {"say": "listening", "port": server.getsockname()[1]}


def _serve(server: socket.socket) -> None:
    """Start a thread for each connection that sends; most close at once."""
    waiting: dict[int, socket.socket] = {}
    poll = select.poll()
    poll.register(server, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == server.fileno():
                connection, _ = server.accept()
                waiting[connection.fileno()] = connection
                poll.register(connection, select.POLLIN)
            else:
                poll.unregister(fd)
                threading.Thread(target=_answer, args=(waiting.pop(fd),), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    with connection:
        kind = connection.recv(1)
        while kind and (data := connection.recv(_BLOCK)):
            if kind == _ECHO:
                connection.sendall(data)
        if kind == _SINK:
            connection.sendall(b"!")


def _reach(asked: dict[str, Any]) -> dict[str, Any]:
    """Connect to all targets at once; return the reasons of failures."""
    targets: dict[str, list[Any]] = asked["targets"]
    failed, trying = {}, {}
    poll = select.poll()
    for name, (address, port) in targets.items():
        one = socket.socket()
        one.setblocking(False)
        number = one.connect_ex((address, port))
        if number in (0, errno.EINPROGRESS):
            trying[one.fileno()] = (name, one)
            poll.register(one, select.POLLOUT)
        else:
            failed[name] = os.strerror(number)
            one.close()
    deadline = time.monotonic() + limits.REACH_SECONDS
    while trying and (left := deadline - time.monotonic()) > 0:
        for fd, _ in poll.poll(1e3 * left):
            poll.unregister(fd)
            name, one = trying.pop(fd)
            number = one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            one.close()
            if number:
                failed[name] = os.strerror(number)
    for name, one in trying.values():
        failed[name] = f"no answer within {limits.REACH_SECONDS:.0f} s"
        one.close()
    return {"say": "reached", "failed": {name: failed[name] for name in targets if name in failed}}


def _measure(asked: dict[str, Any]) -> dict[str, Any]:
    """Measure the median round trip (ms) and TCP bandwidth (10^6 bytes per second)."""
    address, port = asked["target"]
    try:
        with socket.create_connection((address, port), limits.REACH_SECONDS) as line:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line.sendall(_ECHO)
            trips = sorted(_trip(line) for _ in range(_ROUNDS))
        with socket.create_connection((address, port), limits.REACH_SECONDS) as line:
            line.settimeout(limits.MEASURE_SECONDS)
            began, sent = time.perf_counter(), 0
            line.sendall(_SINK)
            while time.perf_counter() - began < _MEASURE_SECONDS:
                line.sendall(bytes(_BLOCK))
                sent += _BLOCK
            line.shutdown(socket.SHUT_WR)
            line.recv(1)
            seconds = time.perf_counter() - began
    except OSError as error:
        return {"say": "failed", "why": error.strerror or str(error)}
    return {"say": "measured", "ms": 1e3 * trips[_ROUNDS // 2], "mb_s": sent / seconds / 1e6}


def _trip(line: socket.socket) -> float:
    began = time.perf_counter()
    line.sendall(b".")
    line.recv(1)
    return time.perf_counter() - began


# Each request: its handler, and its fields besides its number.
_REQUESTS: dict[str, tuple[Callable[[dict[str, Any]], dict[str, Any]], dict[str, Any]]] = {
    "facts": (_facts, {"trees": [str], "python": str, "folder": str}),
    "where": (_where, {}),
    "usage": (_usage, {}),
    "contents": (_contents, {"tree": str, "python": str, "data": [str], "verify": bool}),
    "disk": (_disk, {"tree": str, "python": str, "data": str}),
    "listen": (_listen, {"address": str}),
    "reach": (_reach, {"targets": {str: (str, int)}}),
    "measure": (_measure, {"target": (str, int)}),
}
_SHAPES = {do: {"n": int, **fields} for do, (_, fields) in _REQUESTS.items()}


def _reply(asked: dict[str, Any]) -> None:
    number, do = asked.pop("n"), asked.pop("do")
    try:
        text = json.dumps({**_REQUESTS[do][0](asked), "n": number})
    except Exception as error:  # noqa: BLE001 - the controller gets any error at once
        text = json.dumps({"say": "broken", "n": number, "why": _cause(do, error)})
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _cause(do: str, error: Exception) -> str:
    """Return the text of an exception and its line in mxscale's code."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{do!r} failed: {os.fsdecode(error.filename)}: {error.strerror or error}"
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    where = f" ({at.tb_frame.f_code.co_filename} line {at.tb_lineno})" if at else ""
    return f"{do!r} failed: {type(error).__name__}: {' '.join(str(error).split())}{where}"


def main() -> None:
    """Answer the controller until the connection closes.

    Then end with all child processes.
    """
    for line in sys.stdin.buffer:
        try:
            asked = commands.parsed(line, _SHAPES)
        except ProtocolError:
            continue  # the sender waits for answers to numbered lines only
        threading.Thread(target=_reply, args=(asked,), daemon=True).start()
    if os.getpgid(0) == os.getpid():  # its child processes are in its group
        os.killpg(0, signal.SIGKILL)
    os._exit(0)
