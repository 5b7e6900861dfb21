"""The probe: looks at one host, and at which others it can reach, for the master that asks.

Standard library only and Python 3.8 or newer, sent over a line as the agent is. One JSON line each:

    to it    {"do": "look", "trees", "python", "folder", "variables"} | {"do": "listen", "address"}
             | {"do": "contents", "tree", "python", "data", "verify"} | {"do": "where"}
             | {"do": "reach", "targets": {name: [address, port]}}
             | {"do": "measure", "target"}
    from it  {"say": "facts", ...} | "where" addresses, reached | "contents" contents
             | "listening" port
             | "reached" failed | "measured" mb_s, ms | "failed" why | "broken" why

Each answer has the number `n` of its question. `broken` is for what no answer was thought of for.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from launch import interpreter, lease, machine

_REACH_SECONDS, _BLOCK, _ROUNDS = 3.0, 1 << 20, 20
_MEASURE_SECONDS = 1.0
_ECHO, _SINK = b"e", b"s"


def _look(asked: dict[str, Any]) -> dict[str, Any]:
    with ThreadPoolExecutor(1) as pool:  # the other's programs take their time
        code = pool.submit(interpreter.facts, asked["trees"], asked["python"])
        found = machine.facts(asked["folder"])
        return {
            "say": "facts",
            **found,
            **code.result(),
            "variables": machine.variables(asked.get("variables", [])),
            "holder": lease.holder(),
            "time": time.time(),
        }


def _where(_: dict[str, Any]) -> dict[str, Any]:
    return {"say": "where", "addresses": machine.addresses(), "reached": machine.reached()}


def _contents(asked: dict[str, Any]) -> dict[str, Any]:
    """What the data of a job are on this host, by its own checkout."""
    try:
        return {"say": "contents", "contents": interpreter.contents(**asked)}
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {"say": "failed", "why": interpreter.last_line(error)}


def _listen(asked: dict[str, Any]) -> dict[str, Any]:
    """Takes connections on a random port, as the servers and workers of a job do."""
    try:
        server = socket.create_server((asked["address"], 0), backlog=256)
    except OSError as error:
        return {"say": "failed", "why": error.strerror or str(error)}
    threading.Thread(target=_serve, args=(server,), daemon=True).start()
    return {"say": "listening", "port": server.getsockname()[1]}


def _serve(server: socket.socket) -> None:
    while True:
        connection, _ = server.accept()
        threading.Thread(target=_answer, args=(connection,), daemon=True).start()


def _answer(connection: socket.socket) -> None:
    with connection:
        kind = connection.recv(1)
        while kind and (data := connection.recv(_BLOCK)):
            if kind == _ECHO:
                connection.sendall(data)
        if kind == _SINK:
            connection.sendall(b"!")


def _reach(asked: dict[str, Any]) -> dict[str, Any]:
    targets = asked["targets"]
    with ThreadPoolExecutor(max(1, min(32, len(targets)))) as pool:
        whys = dict(zip(targets, pool.map(_why_not, targets.values())))  # noqa: B905 - Python 3.8
    return {"say": "reached", "failed": {name: why for name, why in whys.items() if why}}


def _why_not(target: list[Any]) -> str:
    try:
        with socket.create_connection((target[0], target[1]), _REACH_SECONDS):
            return ""
    except TimeoutError:
        return f"no answer within {_REACH_SECONDS:.0f} s"
    except OSError as error:
        return error.strerror or str(error)


def _measure(asked: dict[str, Any]) -> dict[str, Any]:
    """Median round trip of a byte in milliseconds; bytes a second, 10^6, in one TCP connection."""
    address, port = asked["target"]
    try:
        with socket.create_connection((address, port), _REACH_SECONDS) as line:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line.sendall(_ECHO)
            trips = sorted(_trip(line) for _ in range(_ROUNDS))
        with socket.create_connection((address, port), _REACH_SECONDS) as line:
            line.settimeout(30.0)
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


_DOES = {
    "look": _look,
    "where": _where,
    "contents": _contents,
    "listen": _listen,
    "reach": _reach,
    "measure": _measure,
}


def _reply(asked: dict[str, Any]) -> None:
    number, do = asked.pop("n"), asked.pop("do")
    try:
        text = json.dumps({**_DOES[do](asked), "n": number})
    except Exception as error:  # noqa: BLE001 - whatever it is, the master is told at once
        text = json.dumps({"say": "broken", "n": number, "why": _cause(do, error)})
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _cause(do: str, error: Exception) -> str:
    """What an exception says, and where in our code it was raised."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{do!r} failed: {os.fsdecode(error.filename)}: {error.strerror or error}"
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    where = f" ({at.tb_frame.f_code.co_filename} line {at.tb_lineno})" if at else ""
    return f"{do!r} failed: {type(error).__name__}: {' '.join(str(error).split())}{where}"


def main() -> None:
    """Answers the master until it closes the line, and then ends at once with all it started."""
    for line in sys.stdin:
        threading.Thread(target=_reply, args=(json.loads(line),), daemon=True).start()
    if os.getpgid(0) == os.getpid():  # programs that it asks, such as Pythons, are in its group
        os.killpg(0, signal.SIGKILL)
    os._exit(0)
