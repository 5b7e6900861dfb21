"""Talk: a program on a host that answers one message with one message, each within a time."""

import contextlib
import json
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from launch.hosts import Host
from launch.remote.errors import LaunchError, ProtocolError
from launch.transport.line import Line, Starter
from launch.transport.protocol import MOST_LINE, RECEIVER, Noise, parse_answer, parse_message

AT_ONCE = 8
# Of threads, which all but wait: more hosts than that take turns.
_MOST_THREADS = 2048
One = TypeVar("One")
Result = TypeVar("Result")


def as_completed(
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


def map_hosts(
    act: Callable[[One], Result], items: Iterable[One], at_once: int = AT_ONCE
) -> list[Result]:
    """What `act` returns for each item, in their order; as `as_done`."""
    found = dict(as_completed(act, items, at_once))
    return [found[place] for place in range(len(found))]


_MOST_UNREAD = 1 << 20
_TURN_SECONDS = 0.01


class Flow:
    """Bytes of one sender's messages. One thread reads them, another takes them.

    The sender itself then waits too, as its line holds no more.
    """

    def __init__(self, most: int = _MOST_UNREAD) -> None:
        self._most, self._read, self._taken = most, 0, 0

    def read(self, size: int, over: threading.Event) -> bool:
        """Waits for room for one more message; False if there is none before it is over."""
        while self._read - self._taken > self._most:
            if over.is_set():
                return False
            time.sleep(_TURN_SECONDS)
        self._read += size
        return True

    def take(self, size: int) -> None:
        """A message was taken."""
        self._taken += size


_SILENCE_SECONDS = 15.0
_BEAT_SECONDS = 1.0
_STREAM_CLOSE_SECONDS = 2.0
_AHEAD = 2
_AGAIN = "run it again, it goes on where it stopped"
# Of what a host says of each file that it is asked about.
_FILE_BYTES = 64


class Exchange:
    """A line to a host on which nothing blocks for ever: two threads write and read it.

    Raises LaunchError, naming the host, where the program fails, falls silent or is gone.
    """

    def __init__(self, host: Host, start: Starter, program: str, files: int = 0) -> None:
        """`files` is how many the host is asked about."""
        self._host, self._most = host, MOST_LINE + _FILE_BYTES * files
        self._line: Line = start(host, program)
        self._outbox: queue.Queue[bytes] = queue.Queue(_AHEAD)
        self._inbox: queue.SimpleQueue[tuple[str, dict[str, Any], int]] = queue.SimpleQueue()
        self._flow = Flow()
        self._heard = time.monotonic()
        self._closed = threading.Event()
        for work in (self._speak, self._listen):
            threading.Thread(target=work, daemon=True).start()

    def send(self, message: dict[str, Any], data: bytes = b"") -> None:
        """Sends a message and the bytes that belong to it, as fast as the line takes them."""
        whole = json.dumps(message).encode() + b"\n" + data
        while True:
            with contextlib.suppress(queue.Empty):
                self._take(0.0)
            with contextlib.suppress(queue.Full):
                return self._outbox.put(whole, timeout=_BEAT_SECONDS)
            self._check_silence()

    def hear(self, say: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Kinds and fields of messages as they come, beats too; the last of them of this kind."""
        while True:
            try:
                found, values = self._take(_BEAT_SECONDS)
            except queue.Empty:
                self._check_silence()
                continue
            if found not in {say, "beat"}:
                raise self.broken(f"expected {say!a}, got {found!a}")
            yield found, values
            if found == say:
                return

    def close(self) -> None:
        """Closes the line, which ends the program; a line that is stuck is left to its threads."""
        self._closed.set()
        closing = threading.Thread(
            target=self._line.close, args=(_STREAM_CLOSE_SECONDS,), daemon=True
        )
        closing.start()
        closing.join(3 * _STREAM_CLOSE_SECONDS)

    def broken(self, why: str) -> LaunchError:
        """That the program there sent what no message is."""
        return LaunchError(f"{self._host.name}: its receiver broke the protocol: {why}")

    def _take(self, seconds: float) -> tuple[str, dict[str, Any]]:
        say, values, size = self._inbox.get(timeout=seconds)
        self._flow.take(size)
        if say == "failed":
            raise LaunchError(f"{self._host.name}: {values['why']}")
        if say == "broken":
            raise self.broken(values["why"])
        if say == "lost":
            why = self._line.last_words() or "the program there ended, or the line was cut"
            raise LaunchError(f"{self._host.name}: {why}; {_AGAIN}")
        return say, values

    def _check_silence(self) -> None:
        if time.monotonic() - self._heard > _SILENCE_SECONDS:
            why = f"said nothing for {_SILENCE_SECONDS:.0f} s"
            raise LaunchError(f"{self._host.name}: {why}; {_AGAIN}")

    def _speak(self) -> None:
        while not self._closed.is_set():
            try:
                data = self._outbox.get(timeout=_BEAT_SECONDS)
            except queue.Empty:
                data = b'{"do": "beat"}\n'
            self._line.write(data)

    def _listen(self) -> None:
        noise = Noise()
        try:
            for line in self._line.lines(self._most):
                self._heard = time.monotonic()
                found = parse_message(line, RECEIVER)
                if found is None:
                    noise.skip(line)
                elif self._flow.read(len(line), self._closed):
                    self._inbox.put((*found, len(line)))
        except ProtocolError as error:
            self._inbox.put(("broken", {"why": str(error)}, 0))
        self._inbox.put(("lost", {}, 0))


_CLOSE_SECONDS, _ABANDON_SECONDS = 2.0, 0.5
# Answers to earlier questions, which came too late.
_MOST_LATE = 100

_Answer = tuple[int, str, dict[str, Any], int]


class Talk:
    """A program that was started to be asked; closing it ends it."""

    def __init__(self, host: Host, start: Starter, program: str) -> None:
        self._host = host
        self._asked = 0
        self._line = start(host, program)
        self._answers: queue.SimpleQueue[_Answer | ProtocolError | None] = queue.SimpleQueue()
        self._flow, self._closed = Flow(), threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def ask(self, message: dict[str, Any], seconds: float, *expected: str) -> dict[str, Any]:
        """The answer, of one of the kinds expected, with its kind as `say`.

        Raises LaunchError if the program breaks or ends, breaks the protocol, or the time is over
        before it. A late answer to an earlier question is skipped.
        """
        self._asked += 1
        self._line.write((json.dumps({**message, "n": self._asked}) + "\n").encode())
        deadline = time.monotonic() + seconds
        with contextlib.suppress(queue.Empty):
            for _ in range(_MOST_LATE):
                found = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
                if isinstance(found, ProtocolError):
                    raise self._broken(str(found))
                if found is None:
                    why = self._line.last_words() or "the connection is gone"
                    raise LaunchError(f"{self._host.name}: its probe ended: {why}")
                number, say, values, size = found
                self._flow.take(size)
                if number != self._asked:
                    continue
                if say == "broken":
                    raise LaunchError(f"{self._host.name}: {values['why']}")
                if say not in expected:
                    raise self._broken(f"expected {' or '.join(expected)}, got {say}")
                return {"say": say, **values}
            raise self._broken("it answers what was not asked")
        raise LaunchError(
            f"{self._host.name}: no answer within {seconds:.0f} s to {message['do']!r}; is the "
            f"host overloaded, or its disk or a file system of it stuck?"
        )

    def _broken(self, why: str) -> LaunchError:
        return LaunchError(f"{self._host.name}: its probe broke the protocol: {why}")

    def close(self) -> None:
        """Ends the program."""
        self._closed.set()
        self._line.close(_CLOSE_SECONDS)
        self._thread.join(_CLOSE_SECONDS)

    def abandon(self) -> None:
        """Ends the program, on another host with the connection, and does not wait for it."""
        self._closed.set()
        self._line.close(_ABANDON_SECONDS if self._host.login is None else 0.0)

    def _listen(self) -> None:
        noise = Noise()
        try:
            for line in self._line.lines(MOST_LINE):
                number = self._asked
                found = parse_answer(line, number)
                if found is None:
                    noise.skip(line)
                elif self._flow.read(len(line), self._closed):
                    self._answers.put((number, *found, len(line)))
        except ProtocolError as error:
            self._answers.put(error)
        self._answers.put(None)
