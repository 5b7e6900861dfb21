"""Hosts that send what a test chooses, and mutations of correct messages."""

import json
import queue
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from launch.hosts import Host
from launch.transport.line import Line, Starter, split, start_local

React = Callable[[dict[str, Any]], Iterable[bytes]]


class Liar:
    """Connection to a program that answers each command with given bytes."""

    def __init__(self, react: React) -> None:
        self._react = react
        self._said: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.closed = False

    def write(self, data: bytes) -> None:
        for line in data.split(b"\n"):
            if line.startswith(b"{"):
                for piece in self._react(json.loads(line)):
                    self._said.put(piece)

    def lines(self, most: int) -> Iterator[bytes]:
        def said() -> Iterator[bytes]:
            while not self.closed and (piece := self._said.get()) is not None:
                yield piece

        yield from split(said(), most)

    def close(self, seconds: float) -> None:
        self.closed = True
        self._said.put(None)

    def last_words(self) -> str:
        return ""


def start_with(react: React, name: str) -> Starter:
    """Start programs here; the host of this name sends false data."""

    def start(host: Host, program: str) -> Line:
        return Liar(react) if host.name == name else start_local(host, program)

    return start


def line(**values: Any) -> bytes:
    """Return a message as mxscale's programs write it."""
    return json.dumps(values).encode() + b"\n"


ODD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1.5, 10**30, -(10**30), float("nan"), float("inf"), 1e300, -1e-300),
    *("", "x", "../../../../x", "/etc/x", "a\0b", "\ud800", "\x1b]0;t\x07", "x" * 5000, "²", "1_0"),
    *([], {}, [[]], [{}], {"": []}, ["x"], [1], {"x": 1}, [["x", 1]], {"a": {"b": {"c": []}}}),
)


def mutated(chance: random.Random, value: Any) -> Any:
    """Return the value with one part replaced, removed, doubled or wrapped."""
    places = list(_places(value, ()))
    where = chance.choice(places)
    return _changed(chance, value, where)


def _places(value: Any, at: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    yield at
    if not isinstance(value, dict | list):
        return
    for name, one in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _places(one, (*at, name))


def _changed(chance: random.Random, value: Any, at: tuple[Any, ...]) -> Any:
    if not at:
        return chance.choice([*ODD, [value], {"x": value}, str(value)])
    name, *rest = at
    copy = dict(value) if isinstance(value, dict) else list(value)
    if not rest and chance.random() < 0.2:
        del copy[name]
    else:
        copy[name] = _changed(chance, value[name], tuple(rest))
    return copy


def spoiled(chance: random.Random, text: bytes) -> bytes:
    """Return the line with some bytes changed, cut off or nested."""
    data = bytearray(text.rstrip(b"\n"))
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(data) or 1)
        match chance.randrange(4):
            case 0:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del data[at : at + chance.randrange(1, 20)]
            case 2:
                data[at:at] = chance.choice([b"[" * 5000, b"9" * 5000, b"\\ud800", b"NaN", b'"'])
            case _:
                data[at:at] = data[at : at + 10]
    return bytes(data.replace(b"\n", b" "))
