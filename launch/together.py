"""The same for every host at once, which an interrupt need not wait for."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

AT_ONCE = 8
One = TypeVar("One")
Result = TypeVar("Result")


def together(
    act: Callable[[One], Result], items: Iterable[One], at_once: int = AT_ONCE
) -> list[Result]:
    """What `act` returns for each item, in their order; the first exception is raised.

    An interrupt is raised at once: whoever called closes what the threads wait for.
    """
    pool = ThreadPoolExecutor(at_once)
    try:
        return [one.result() for one in [pool.submit(act, item) for item in items]]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
