"""Client of a program on a host: requests with answers, streams of messages; hosts in parallel."""

import json
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from launch.hosts import Host
from launch.remote import limits
from launch.remote.errors import LaunchError, ProtocolError
from launch.transport.line import Line, Starter
from launch.transport.protocol import MOST_LINE, RECEIVER, Noise, parse_answer, parse_message

AT_ONCE = 8
# The threads mostly wait. Hosts beyond this number take turns.
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
    """What `act` returns for each item, in their order; as `as_completed`."""
    found = dict(as_completed(act, items, at_once))
    return [found[place] for place in range(len(found))]


def catch_errors(act: Callable[[One], Result]) -> Callable[[One], Result | LaunchError]:
    """As `act`, which then returns a LaunchError: one host that fails ends no other."""

    def caught(item: One) -> Result | LaunchError:
        try:
            return act(item)
        except LaunchError as error:
            return error

    return caught


MOST_UNREAD = 1 << 20
_TURN_SECONDS = 0.01


class Flow:
    """Bytes of one sender's messages. One thread reads them, another takes them.

    The sender itself then waits too, as its line holds no more.
    """

    def __init__(self, most: int = MOST_UNREAD) -> None:
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """A message of a program on a host; `say` is 'lost' once, when its line is gone.

    at     when it was read: what was read before is known when it is taken
    size   bytes; flow: the sender's, which waits while too much is not `taken`
    """

    host: Host
    say: str
    values: dict[str, Any]
    at: float = field(default_factory=time.monotonic)
    size: int = 0
    flow: Flow | None = None

    def taken(self) -> None:
        """Makes room for what the host says next."""
        if self.flow is not None:
            self.flow.take(self.size)


_AHEAD = 2
_AGAIN = "run it again, it goes on where it stopped"
# A host's answer about one file is not longer.
_FILE_BYTES = 64
# Answers to earlier requests that came too late.
_MOST_LATE = 100
# These programs end when their controller is silent.
_BEATING = ("agent", "receiver")
Inbox = queue.SimpleQueue[Message]
Parsed = tuple[str, dict[str, Any]]
Parser = Callable[[bytes], Parsed | None]


class RemoteProgram:
    """A program on a host, started over a line; `close` ends it.

    One thread reads its messages into an inbox and another writes to it, so that no caller waits
    for a host that is stuck. A program that breaks the protocol is lost: nothing more is read. Its
    messages are taken by `request`, by `stream`, or by the owner of the inbox.
    """

    def __init__(  # noqa: PLR0913 - the last three are for one kind of program each
        self,
        host: Host,
        start: Starter,
        program: str,
        *,
        parse: Parser | None = None,
        inbox: Inbox | None = None,
        files: int = 0,
    ) -> None:
        """`files` is how many files a receiver is asked about."""
        self.host, self.flow = host, Flow()
        self.violation = ""  # of the protocol: what was expected, and the message instead
        self._streams = program == "receiver"
        self._beats = program in _BEATING
        self._requests = 0
        stream = partial(parse_message, kinds=RECEIVER)
        self._parse = parse or (stream if self._streams else self._parse_answer)
        self._inbox: Inbox = queue.SimpleQueue() if inbox is None else inbox
        self._outbox: queue.Queue[bytes] = queue.Queue(_AHEAD if self._streams else 0)
        self._most = MOST_LINE + _FILE_BYTES * files
        self._closed = threading.Event()
        self._line: Line = start(host, program)
        self._last_read = time.monotonic()
        self.threads = tuple(
            threading.Thread(target=work, daemon=True) for work in (self._read, self._write)
        )
        for thread in self.threads:
            thread.start()

    def send(self, message: dict[str, Any], data: bytes = b"") -> None:
        """Sends a message and the bytes that belong to it; a line that is gone takes them silently.

        Raises LaunchError where a receiver has failed, is silent or is gone.
        """
        whole = json.dumps(message).encode() + b"\n" + data
        while True:
            if self._streams:
                self._take(0.0)
            with suppress(queue.Full):
                return self._outbox.put(whole, timeout=limits.BEAT_SECONDS)
            self._check_silence()

    def request(self, message: dict[str, Any], seconds: float, *expected: str) -> dict[str, Any]:
        """The answer to a message, of one of the kinds expected, with its kind as `say`.

        Raises LaunchError if the program breaks or ends, breaks the protocol, or the time is over
        before it. A late answer to an earlier request is skipped.
        """
        self._requests += 1
        self.send({**message, "n": self._requests})
        deadline = time.monotonic() + seconds
        for _ in range(_MOST_LATE):
            answer = self._take(max(0.0, deadline - time.monotonic()))
            if answer is None:
                raise LaunchError(
                    f"{self.host.name}: no answer within {seconds:.0f} s to {message['do']!r}; is "
                    f"the host overloaded, or its disk or a file system of it stuck?"
                )
            if answer.values["n"] != self._requests:
                continue
            values = {name: value for name, value in answer.values.items() if name != "n"}
            if answer.say == "broken":
                raise LaunchError(f"{self.host.name}: {values['why']}")
            if answer.say not in expected:
                raise self.protocol_error(f"expected {' or '.join(expected)}, got {answer.say}")
            return {"say": answer.say, **values}
        raise self.protocol_error("it answers what was not asked")

    def stream(self, say: str) -> Iterator[Parsed]:
        """Kinds and fields of messages as they come, beats too; the last of them of this kind.

        Raises LaunchError where the program has failed, is silent or is gone.
        """
        while True:
            message = self._take(limits.BEAT_SECONDS)
            if message is None:
                self._check_silence()
                continue
            if message.say not in {say, "beat"}:
                raise self.protocol_error(f"expected {say!a}, got {message.say!a}")
            yield message.say, message.values
            if message.say == say:
                return

    def close(self, seconds: float | None = None) -> None:
        """Closes the line, which ends the program, and waits so long for it to go.

        With 0 it waits for nothing, and ends the connection to another host. A line that is stuck
        is left to its threads.
        """
        seconds = limits.CLOSE_SECONDS if seconds is None else seconds
        self._closed.set()
        with suppress(queue.Full):
            self._outbox.put_nowait(b"")  # wakes the thread that writes
        closing = threading.Thread(target=self._line.close, args=(seconds,), daemon=True)
        closing.start()
        closing.join(3 * seconds + 1.0)
        for thread in self.threads:
            thread.join(min(seconds, 1.0))

    def abandon(self) -> None:
        """Ends the program, on another host with the connection, and does not wait for it."""
        self.close(limits.ABANDON_SECONDS if self.host.login is None else 0.0)

    def protocol_error(self, why: str) -> LaunchError:
        """The error for a program that broke the protocol."""
        name = "receiver" if self._streams else "probe"
        return LaunchError(f"{self.host.name}: its {name} broke the protocol: {why}")

    def _take(self, seconds: float) -> Message | None:
        """The next message; LaunchError where it is the last."""
        try:
            message = self._inbox.get(timeout=seconds)
        except queue.Empty:
            return None
        message.taken()
        why = message.values.get("why", "")
        if message.say == "lost" and self.violation:
            raise self.protocol_error(self.violation)
        if message.say == "lost" and self._streams:
            why = why or "the program there ended, or the line was cut"
            raise LaunchError(f"{self.host.name}: {why}; {_AGAIN}")
        if message.say == "lost":
            why = why or "the connection is gone"
            raise LaunchError(f"{self.host.name}: its probe ended: {why}")
        if message.say == "failed" and self._streams:
            raise LaunchError(f"{self.host.name}: {why}")
        return message

    def _check_silence(self) -> None:
        if self._streams and time.monotonic() - self._last_read > limits.STREAM_SILENCE_SECONDS:
            why = f"said nothing for {limits.STREAM_SILENCE_SECONDS:.0f} s"
            raise LaunchError(f"{self.host.name}: {why}; {_AGAIN}")

    def _write(self) -> None:
        while not self._closed.is_set():
            try:
                data = self._outbox.get(timeout=limits.BEAT_SECONDS if self._beats else None)
            except queue.Empty:
                data = b'{"do": "beat"}\n'
            if data:
                self._line.write(data)

    def _read(self) -> None:
        noise = Noise()
        try:
            for line in self._line.lines(self._most):
                self._last_read = time.monotonic()
                found = self._parse(line)
                if found is None:
                    noise.skip(line)
                elif self.flow.read(len(line), self._closed):
                    self._put(*found, len(line))
            why = self._line.last_words()
        except ProtocolError as error:
            self.violation = str(error)
            why = f"broke the protocol: {error}"
        self._put("lost", {"why": why} if why else {})

    def _put(self, say: str, values: dict[str, Any], size: int = 0) -> None:
        self._inbox.put(Message(host=self.host, say=say, values=values, size=size, flow=self.flow))

    def _parse_answer(self, line: bytes) -> Parsed | None:
        number = self._requests
        found = parse_answer(line, number)
        return None if found is None else (found[0], {**found[1], "n": number})
