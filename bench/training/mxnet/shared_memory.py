"""Memory that the workers of one host share.

It has no name: each worker opens the others' by their process, so that nothing stays behind when
one is killed.
"""

import hashlib
import mmap
import os
import secrets
import struct
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from bench.kvstores import SHARED_VARIABLE
from bench.training.torch.rendezvous import Job

# Before the values: a random number, which shows that a file is the worker's.
_HEAD = 64
# Hash of a worker's address, its process, a descriptor there, and the memory's first bytes.
_OFFER = struct.Struct(f"<32sqq{_HEAD}s")


def open_shared(job: Job, size: int) -> list[Any] | None:
    """Return the memory of each worker by rank, as float32 zeros of `size` bytes.

    Returns None if a worker is alone, has another address, or cannot open another one's memory, or
    if the variable MXSCALE_SHARED_MEMORY is 0. All workers must call this.
    """
    if job.num_workers == 1:
        return None
    number = os.memfd_create("mxscale")
    os.ftruncate(number, _HEAD + size)
    token = secrets.token_bytes(_HEAD)
    os.pwrite(number, token, 0)
    address = hashlib.sha256(os.environ.get("MXSCALE_ADDRESS", "").encode()).digest()
    own = torch.tensor(list(_OFFER.pack(address, os.getpid(), number, token)), dtype=torch.uint8)
    gathered = [torch.empty_like(own) for _ in range(job.num_workers)]
    dist.all_gather(gathered, own)
    found = opened([_OFFER.unpack(bytes(one.tolist())) for one in gathered], size)
    everywhere = not job.any(found is None)  # after the others have opened it
    os.close(number)
    return found if everywhere else None


def opened(offers: list[tuple[bytes, int, int, bytes]], size: int) -> list[Any] | None:
    """Return the memory of each worker; None if one of them is out of reach.

    A worker offers what `_OFFER` holds.
    """
    if os.environ.get(SHARED_VARIABLE) == "0" or len({address for address, *_ in offers}) > 1:
        return None
    found = []
    for _, process, number, token in offers:
        try:
            descriptor = os.open(f"/proc/{process}/fd/{number}", os.O_RDWR)
        except OSError:
            return None
        try:
            if os.pread(descriptor, _HEAD, 0) != token:
                return None
            memory = mmap.mmap(descriptor, _HEAD + size)
        except (OSError, ValueError):
            return None
        finally:
            os.close(descriptor)
        found.append(torch.from_numpy(np.frombuffer(memory, np.float32, offset=_HEAD)))
    return found
