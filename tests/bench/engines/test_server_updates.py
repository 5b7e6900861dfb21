"""A server exchanges the optimizer's states under keys of their own."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.engines.server_updates import FIRST_SUM, MOST_SLOTS, ServerUpdates, stride


class Sum(np.ndarray):
    """A sum of pushes whose last message is read when somebody waits."""

    message = 0.0

    def wait_to_read(self) -> None:
        self[:] = self.message


def pushed(value: float) -> Sum:
    made = np.zeros(2).view(Sum)
    made.message = value
    return made


@pytest.fixture
def updates() -> ServerUpdates:
    def update(key: int, gradient: Any, weight: Any) -> None:
        weight -= gradient.message

    update.optimizer = SimpleNamespace(  # type: ignore[attr-defined]
        create_state_multi_precision=lambda _, weight: (np.full(2, 3.0), np.full(2, 4.0))
    )
    update.states, update.states_synced = {}, {}  # type: ignore[attr-defined]
    return ServerUpdates(update, 3)


def test_a_pushed_state_is_complete_before_the_message_may_be_freed(updates: ServerUpdates) -> None:
    index, stored = 7, np.zeros(2)
    for slot, value in enumerate((5.0, 6.0)):
        updates(index + (1 + MOST_SLOTS + slot) * stride(3), pushed(value), stored)
    assert stored.tolist() == [0, 0]
    read = pushed(0)
    for slot, value in enumerate((5.0, 6.0)):
        updates(index + (1 + slot) * stride(3), read, stored)
        assert stored.tolist() == [value, value]


def test_weights_and_sums_do_not_wait(updates: ServerUpdates) -> None:
    weight, total = np.ones(2), np.ones(2)
    updates(7, pushed(0.25), weight)
    assert weight.tolist() == [0.75, 0.75]
    updates(FIRST_SUM + 7, pushed(9), total)
    assert total.tolist() == [1, 1]
