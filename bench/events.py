"""Events of running processes: one line of JSON per event on a separate stream.

MXSCALE_EVENTS names the stream's file descriptor. Output of libraries to stdout or stderr cannot
damage it. On stdout, where servers and schedulers send theirs, each event follows a mark. A worker
started by hand has no such variable and sends no events.
"""

from __future__ import annotations

import os
from _json import encode_basestring_ascii
from collections import namedtuple

TYPE_CHECKING = False  # typing takes 2 ms to load, a tenth of a simulated process
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

STREAM_VARIABLE = "MXSCALE_EVENTS"
_STDOUT, _MARK = 1, "\x1f"
# Fact of a worker that passes on what a program prints.
REPORTED = "reported"
KINDS = frozenset(
    {
        *("reached", "registered", "refused"),
        *("ready", "window", "measured", "validating", "epoch", "done", "failed"),
    }
)


class Event(namedtuple("Event", ("kind", "rank", "values"))):
    """One event of a process; workers send all kinds but the first three.

    kind    reached     the scheduler answered, or the scheduler listens; rank -1
            registered  a server or worker joined the job; rank -1
            refused     a server: count of commands rejected so far; rank -1
            ready       after rendezvous: the actual num_workers, worker_batch, ...
            window      index, seconds, cpu_seconds, images, steps, loss, input_wait, run_delay,
                        own_seconds (of a probe before it)
            measured    after the last window; validation and probes may follow
            validating  total so far; sent regularly during a long validation
            epoch       epoch, correct, total (of this rank's share of the validation set),
                        in_top_k, seconds (from the first batch to the end of the validation)
            done        weight_hash, peak_memory_bytes, peak_device_memory_bytes (GPUs), versions of
                        Python and MXNet; notes (JSON); own_seconds (probes after the last window)
            failed      message; error, the name of a worker's exception
    """

    __slots__ = ()


def emit(event: Event) -> str:
    """Encode an event as one line without newline; inverse of `event_decoder.decoded`."""
    found = {"event": event.kind, "rank": event.rank, **event.values}
    return f"{{{', '.join(f'{_encoded(name)}: {_encoded(one)}' for name, one in found.items())}}}"


def _encoded(value: object) -> str:
    """Return a value as JSON.

    Simulated processes have strings and numbers only; json would double the time of their start.
    """
    if type(value) is str:
        return encode_basestring_ascii(value)
    if type(value) is int or (type(value) is float and value - value == 0.0):
        return repr(value)
    import json  # noqa: PLC0415

    return json.dumps(value)


def has_stream() -> bool:
    """Return whether this process is part of a job, whose agent receives its events."""
    return os.environ.get(STREAM_VARIABLE, "").isdecimal()


def say(kind: str, values: Mapping[str, Any] | None = None, rank: int = -1) -> None:
    """Send an event to the agent in one system call.

    Do nothing without an event stream.
    """
    if has_stream():
        event = Event(kind=kind, rank=rank, values=dict(values or {}))
        stream = int(os.environ[STREAM_VARIABLE])
        mark = _MARK if stream == _STDOUT else ""
        os.write(stream, f"{mark}{emit(event)}\n".encode())
