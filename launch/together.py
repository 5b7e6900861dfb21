"""The same for every host at once, which an interrupt need not wait for."""

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

AT_ONCE = 8
# Of threads, which all but wait: more hosts than that take turns.
_MOST_THREADS = 2048
One = TypeVar("One")
Result = TypeVar("Result")


def as_done(
    act: Callable[[One], Result], items: Iterable[One], at_once: int = AT_ONCE
) -> Iterator[tuple[int, Result]]:
    """The place of each item and what `act` returns for it, as they end.

    An exception is raised as it comes, an interrupt at once: whoever called closes what the threads
    wait for. No thread keeps the process from its end, as those of an executor would.
    """
    work = list(items)
    todo = iter(enumerate(work))
    done: queue.SimpleQueue[tuple[int, Result] | BaseException] = queue.SimpleQueue()
    lock, over = threading.Lock(), threading.Event()

    def run() -> None:
        while not over.is_set():
            with lock:
                found = next(todo, None)
            if found is None:
                return
            place, item = found
            try:
                done.put((place, act(item)))
            except BaseException as error:  # noqa: BLE001 - raised by who waits
                done.put(error)

    try:
        for _ in range(min(len(work), max(1, at_once), _MOST_THREADS)):
            threading.Thread(target=run, daemon=True).start()
        for _ in work:
            one = done.get()
            if isinstance(one, BaseException):
                raise one
            yield one
    finally:
        over.set()


def together(
    act: Callable[[One], Result], items: Iterable[One], at_once: int = AT_ONCE
) -> list[Result]:
    """What `act` returns for each item, in their order; as `as_done`."""
    found = dict(as_done(act, items, at_once))
    return [found[place] for place in range(len(found))]
