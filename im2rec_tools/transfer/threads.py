"""Threads that share work, and end with the generator that watches them."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_UPDATE_SECONDS = 0.25
# After an interrupt, a thread that waits for a server is left to the end of the process.
_JOIN_SECONDS = 5.0


def run(work: Callable[[], None], count: int, stop: threading.Event) -> Iterator[None]:
    """Run `work` in `count` threads; yield every 0.25 s until all have returned.

    Sets `stop` when a thread raises or the generator is closed; raises the first error.
    """
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised in the watching thread
            errors.append(error)
            stop.set()

    threads = [threading.Thread(target=guarded, daemon=True) for _ in range(count)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(_UPDATE_SECONDS)
                yield
    finally:
        if any(thread.is_alive() for thread in threads):
            stop.set()
        deadline = time.monotonic() + _JOIN_SECONDS
        for thread in threads:
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
    if errors:
        raise errors[0]


def for_each(
    act: Callable[[Any], None], items: Iterable[Any], count: int, stop: threading.Event
) -> Iterator[None]:
    """Run `act` on every item in `count` threads; else as `run`."""
    left, lock = iter(items), threading.Lock()

    def work() -> None:
        while not stop.is_set():
            with lock:
                item = next(left, None)
            if item is None:
                return
            act(item)

    yield from run(work, count, stop)
