"""Foreign programs that reach a job's ports: raw messages to ps-lite, workers."""

import os
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from launch.hosts import ROOT

OPTIMIZER, PROFILER = 0, 5


class Payload:
    """Pickled object that creates a file when a server unpickles it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)


def pickled(path: Path) -> bytes:
    """Return the body of an exploit, as MXNet accepts it."""
    return pickle.dumps(Payload(path), 0)


def listening(pid: int) -> tuple[str, int]:
    """Return the address and port on which a process of this user listens."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            inodes.add(str(link.readlink()).removeprefix("socket:[").rstrip("]"))
        except OSError:  # closed since
            continue
    for line in Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in inodes:
            address, port = fields[1].split(":")
            return socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)
    raise AssertionError(f"process {pid} listens on no port")


def _whole(number: int) -> bytes:
    """Encode a protobuf number: seven bits per byte, the lowest first."""
    made = b""
    while number > 127:
        made += bytes([number & 127 | 128])
        number >>= 7
    return made + bytes([number])


def _field(key: int, number: int) -> bytes:
    return _whole(key << 3) + _whole(number)


def command(head: int, body: bytes) -> bytes:
    """Return a ps-lite message with this command for a server."""
    text = _whole(2 << 3 | 2) + _whole(len(body)) + body
    rest = ((4, 1), (7, 0), (8, 0), (10, 0), (5, 0), (6, 1))
    return _field(1, head) + text + b"".join(_field(*one) for one in rest)


def _frame(flags: int, body: bytes) -> bytes:
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | 2]) + len(body).to_bytes(8, "big") + body


def _property(name: bytes, value: bytes) -> bytes:
    return bytes([len(name)]) + name + len(value).to_bytes(4, "big") + value


def send(address: tuple[str, int], *messages: bytes, identity: bytes = b"ps009") -> None:
    """Send messages as a ZeroMQ peer; ps-lite uses its identity as node number."""
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
    ready = b"\x05READY" + _property(b"Socket-Type", b"DEALER") + _property(b"Identity", identity)
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(greeting + _frame(4, ready))
        seen = b""
        while b"READY" not in seen:  # earlier messages would break the handshake
            seen += connection.recv(4096)
        time.sleep(0.1)
        connection.sendall(b"".join(_frame(0, one) for one in messages))
        time.sleep(0.5)  # unread messages would be lost with the connection


@contextmanager
def foreign_worker(address: tuple[str, int], *, stays: bool) -> Iterator[None]:
    """Start an MXNet worker that joins a scheduler's job of one worker and one server."""
    code = "from bench.training.mxnet_shim import mx; "
    code += "store = mx.kv.create('dist_sync'); print(flush=True)"
    code += "; input()" if stays else ""
    job = {"DMLC_PS_ROOT_URI": address[0], "DMLC_PS_ROOT_PORT": str(address[1])}
    counts = {"DMLC_NUM_WORKER": "1", "DMLC_NUM_SERVER": "1", "DMLC_NODE_HOST": "127.0.0.1"}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **job, **counts, "DMLC_ROLE": "worker"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
        finally:
            process.kill()
