"""Updates of a server: weights, sums over workers, the optimizer's states.

MXNet's servers apply the optimizer to every push, and cannot send their states. These add up the
pushes to keys from `FIRST_SUM` on, and answer other keys with states: an array of state belongs to
the same servers as its weight, because MXNet chooses a key's server by its remainder.
"""

from collections.abc import Iterator
from typing import Any

FIRST_SUM = 1_000_000_000
# Arrays of state per weight; no optimizer of MXNet 1.9.1 has more.
MOST_SLOTS = 4
_MOST_ARRAYS = 10_000


def stride(servers: int) -> int:
    """Return the distance between the keys of a weight and of its states."""
    return -(-_MOST_ARRAYS // servers) * servers


def slots(state: Any) -> Iterator[Any]:
    """Yield the arrays of an optimizer's state: None, an array, or a nested tuple."""
    if isinstance(state, tuple | list):
        for one in state:
            yield from slots(one)
    elif state is not None:
        yield state


def state_of(updater: Any, index: int, weight: Any) -> list[Any]:
    """Return the arrays of a weight's state; create them if there was no update yet."""
    if index not in updater.states:
        updater.states[index] = updater.optimizer.create_state_multi_precision(index, weight)
        updater.states_synced[index] = True
    return list(slots(updater.states[index]))


class ServerUpdates:
    """The updater of a server; MXNet calls it with the sum of the workers' pushes."""

    def __init__(self, updater: Any, servers: int) -> None:
        """Use MXNet's `updater` for weights in a job with this number of servers."""
        self._updater, self._stride = updater, stride(servers)

    def __call__(self, key: int, pushed: Any, stored: Any) -> None:
        """Change `stored`, the value of `key` on this server, or the optimizer's state."""
        slot, index = divmod(key, self._stride)
        if key >= FIRST_SUM:
            stored += pushed
        elif not slot:
            self._updater(key, pushed, stored)
        else:
            self._exchange_state(slot, index, pushed, stored)

    def _exchange_state(self, slot: int, index: int, pushed: Any, stored: Any) -> None:
        """Copy an array of a weight's state to `stored`, or `pushed` to it."""
        # MXNet waits only for `stored` before it frees the last worker's message, which the sum in
        # `pushed` may not have read yet.
        pushed.wait_to_read()
        if slot <= MOST_SLOTS:
            stored[:] = state_of(self._updater, index, stored)[slot - 1]
        else:
            state_of(self._updater, index, stored)[slot - MOST_SLOTS - 1][:] = pushed
