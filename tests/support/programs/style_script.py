"""Distributed script of a style: connects to the others by its variables.

    python style_script.py torch|tensorflow|mpi

Prints one line with its place in the job.
"""

import json
import os
import socket
import sys
import time
from collections.abc import Callable

SECONDS = 20.0


def connect(address: tuple[str, int]) -> socket.socket:
    """Connect to a process that may not listen yet."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return socket.create_connection(address, timeout=SECONDS)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def torch() -> str:
    """Rank 0 listens at MASTER_ADDR, and every other rank sends its number there."""
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    rank, size, local, local_size = (int(os.environ[name]) for name in names)
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if rank:
        with connect(address) as line:
            line.sendall(bytes([rank]))
    else:
        with socket.create_server(address, backlog=size) as listener:
            lines = [listener.accept()[0] for _ in range(1, size)]
        met = sorted(line.recv(1)[0] for line in lines)
        assert met == list(range(1, size))
    return f"rank {rank} of {size}, local {local} of {local_size}"


def tensorflow() -> str:
    """Every task listens at its own address and connects to all the others."""
    found = json.loads(os.environ["TF_CONFIG"])
    kind, index = found["task"]["type"], found["task"]["index"]
    addresses = {
        (other, number): (address.rpartition(":")[0], int(address.rpartition(":")[2]))
        for other, listed in found["cluster"].items()
        for number, address in enumerate(listed)
    }
    own = addresses.pop((kind, index))
    with socket.create_server(own, backlog=len(addresses)) as listener:
        lines = [connect(address) for address in addresses.values()]
        met = [listener.accept()[0] for _ in addresses]
    return f"{kind} {index} of {len(found['cluster'][kind])}, met {len(lines)} and {len(met)}"


def mpi() -> str:
    """The only process has the list of all hosts."""
    return f"hosts {os.environ['MXSCALE_HOSTS']}"


STYLES: dict[str, Callable[[], str]] = {"torch": torch, "tensorflow": tensorflow, "mpi": mpi}

if __name__ == "__main__":
    assert not [name for name in os.environ if name.startswith("DMLC_")]
    print(STYLES[sys.argv[1]](), flush=True)
