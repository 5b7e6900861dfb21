"""The way to a job's scheduler, tried by each of its processes while MXNet is loaded.

MXNet says nothing until all have met, and then only to workers: without this nobody could tell
which of a hundred processes the others are waiting for.
"""

import ctypes
import os
import socket
import threading
import time

from bench.events import STREAM_VARIABLE, Event, say

_KNOCK_SECONDS = 0.2
# MXNet sets this variable in C when the scheduler has given the process its place in the job.
_PLACE_VARIABLE = b"DMLC_RANK"


def announce() -> None:
    """Says `reached` as soon as the scheduler answers this process; returns at once.

    The scheduler itself says so once it listens. A server or worker says `registered` as soon as
    it has its place in the job.
    """
    if STREAM_VARIABLE in os.environ and "DMLC_PS_ROOT_URI" in os.environ:
        role = os.environ.get("DMLC_ROLE", "")
        threading.Thread(target=_follow, args=(role,), daemon=True).start()


def _connect() -> None:
    port = os.environ["DMLC_PS_ROOT_PORT"]
    if os.environ.get("DMLC_LOCAL", "0") != "0":  # MXNet's processes meet at files in /tmp then
        with socket.socket(socket.AF_UNIX) as local:
            local.connect(f"/tmp/{port}")
        return
    address = os.environ["DMLC_PS_ROOT_URI"], int(port)
    socket.create_connection(address, timeout=_KNOCK_SECONDS).close()


def _follow(role: str) -> None:
    while True:
        try:
            _connect()
        except OSError:
            time.sleep(_KNOCK_SECONDS)
        else:
            say(Event(kind="reached", rank=-1))
            break
    if role != "scheduler":
        _wait_for_place()
        say(Event(kind="registered", rank=-1))


def _wait_for_place() -> None:
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_char_p
    while getenv(_PLACE_VARIABLE) is None:
        time.sleep(_KNOCK_SECONDS)
