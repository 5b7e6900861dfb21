"""Rendezvous of a job's workers, and their messages outside of training.

Rank 0 holds PyTorch's store, at the address and port of the plan. Gloo connects CPUs, NCCL GPUs.
NCCL refuses two workers on one GPU, so gloo connects those too. Messages outside of training always
go over gloo, so that they never wait for a GPU.
"""

import fcntl
import os
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist

from bench import events
from bench.errors import SpecError, error_line

# The controller's deadlines end a job earlier.
_LONGEST = timedelta(hours=24)
_GET_ADDRESS = 0x8915  # SIOCGIFADDR, Linux
# What gloo and NCCL call the interface that they use.
_INTERFACE_VARIABLES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


def interface_of(address: str) -> str:
    """Return the network interface with this IPv4 address; SpecError if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode())
            try:
                found = fcntl.ioctl(asked.fileno(), _GET_ADDRESS, request)[20:24]
            except OSError:  # an interface without an address
                continue
            if socket.inet_ntoa(found) == address:
                return name
    # 127.0.0.1 stands for all of 127.0.0.0/8, such as the addresses of Debian's own host name.
    if address.startswith("127."):
        return "lo"
    problem = "no network interface has this address"
    fix = "Set the host's address in the hosts file to one of its own"
    raise SpecError(error_line(address, problem=problem, fix=fix))


@dataclass(frozen=True, kw_only=True)
class Job:
    """This worker's rank and the job's number of workers."""

    rank: int = 0
    num_workers: int = 1

    def barrier(self) -> None:
        """Wait until every worker has called this."""
        self.sums((0,))

    def broadcast(self, value: float) -> float:
        """Return the first worker's value; all workers must call this."""
        sent = torch.tensor([value], dtype=torch.float64)
        if self.num_workers > 1:
            dist.broadcast(sent, 0)
        return float(sent)

    def any(self, vote: bool) -> bool:
        """Return whether any worker votes yes; all workers must call this."""
        return bool(self.sums((int(vote),))[0])

    def sums(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """Return the sum over all workers of each number; all workers must call this."""
        summed = torch.tensor(numbers, dtype=torch.int64)
        if self.num_workers > 1:
            dist.all_reduce(summed)
        return tuple(summed.tolist())


def backends(gpus: Sequence[bytes]) -> str:
    """Return what connects workers, by the ids of their GPUs; CPUs have none."""
    if not gpus:
        return "gloo"
    return "cpu:gloo,cuda:nccl" if len(set(gpus)) == len(gpus) else "cpu:gloo,cuda:gloo"


def join(gpu: int | None = None) -> Job:
    """Return this worker's place in its job, after all workers have met.

    `gpu` is the number of its GPU, None for a CPU.
    """
    rank, workers = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if own := os.environ.get("MXSCALE_ADDRESS", ""):
        name = interface_of(own)
        for variable in _INTERFACE_VARIABLES:
            os.environ.setdefault(variable, name)
    store = _store(rank, workers)
    events.say("reached")
    gpus = []
    if gpu is not None:
        store.set(f"gpu {rank}", str(torch.cuda.get_device_properties(gpu).uuid))
        gpus = [store.get(f"gpu {other}") for other in range(workers)]
    kinds = backends(gpus)
    dist.init_process_group(kinds, store=store, rank=rank, world_size=workers, timeout=_LONGEST)
    events.say("registered")
    return Job(rank=rank, num_workers=workers)


def _store(rank: int, workers: int) -> dist.TCPStore:
    """Open the store, or connect to that of rank 0 as soon as it listens."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    try:
        return dist.TCPStore(
            address, port, workers, rank == 0, timeout=_LONGEST, wait_for_workers=False
        )
    except dist.DistNetworkError as error:
        if rank:
            raise
        problem, fix = "is used by another program", "Give --port another one"
        raise OSError(error_line(f"{address}:{port}", problem=problem, fix=fix)) from error
