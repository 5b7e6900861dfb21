"""What a process says while it runs: one line of JSON an event, on a stream of its own.

The stream is the file descriptor named by MXSCALE_EVENTS, so that whatever libraries print to
stdout or stderr cannot damage it. A worker typed by hand has no such variable and says nothing.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STREAM_VARIABLE = "MXSCALE_EVENTS"
KINDS = frozenset(
    {
        *("reached", "registered", "refused"),
        *("ready", "window", "validating", "epoch", "done", "failed"),
    }
)


@dataclass(frozen=True, kw_only=True)
class Event:
    """One thing a process said; all but the first three kinds are a worker's.

    kind    reached     the scheduler answers it, or it is the scheduler and listens; rank -1
            registered  a server or worker has its place in the job; rank -1
            refused     a server: count, of the commands that it has refused so far; rank -1
            ready       after rendezvous: num_workers, worker_batch, ... as the job really uses them
            window      index, seconds, cpu_seconds, images, steps, loss
            validating  total so far; now and then, so that a long validation is no silence
            epoch       epoch, correct, total (of this rank's share of the validation set), in_top_k
            done        weight_hash, peak_memory_bytes, which python and MXNet it ran; notes (JSON)
            failed      message; error, the name of a worker's exception
    """

    kind: str
    rank: int
    values: dict[str, Any] = field(default_factory=dict)


def emit(event: Event) -> str:
    """The event as one line, without its newline; `bench.event_decoder.decoded` is its inverse."""
    return json.dumps({"event": event.kind, "rank": event.rank, **event.values})


def say(kind: str, values: Mapping[str, Any] | None = None, rank: int = -1) -> None:
    """Writes an event to the master in one system call; does nothing where there is no master."""
    stream = os.environ.get(STREAM_VARIABLE)
    if stream is not None and stream.isdecimal():
        event = Event(kind=kind, rank=rank, values=dict(values or {}))
        os.write(int(stream), (emit(event) + "\n").encode())
