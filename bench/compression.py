"""Gradients compressed to two bits each on their way to the servers; weights come back whole.

A gradient is added to what was left of it before (the residual); where that reaches the threshold,
plus or minus the threshold is sent and taken from it, else nothing.
"""

from typing import Any


def compress(store: Any, kind: str, threshold: float) -> None:
    """Has a distributed store compress what is pushed from now on."""
    store.set_gradient_compression({"type": kind, "threshold": threshold})

    # What trainers call, MXNet refuses once gradients are compressed: it is one request there.
    def push_and_pull(key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        store.push(key, value, priority=priority)
        store.pull(key, out=value if out is None else out, priority=priority)

    store.pushpull = push_and_pull
