"""Client of a program on a host: requests, message streams, and hosts in parallel."""

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
from launch.remote.errors import LaunchError, ProtocolError, error_line
from launch.transport.line import Line, Starter
from launch.transport.protocol import MOST_LINE, RECEIVER, Noise, parse_answer, parse_message

AT_ONCE = 8
# The threads mostly wait; more hosts take turns.
_MOST_THREADS = 2048
One = TypeVar("One")
Result = TypeVar("Result")


def as_completed(
    act: Callable[[One], Result], items: Iterable[One], at_once: int = AT_ONCE
) -> Iterator[tuple[int, Result]]:
    """Run `act` on items in parallel.

    Yield the index and the result of each as it ends.

    Exceptions are raised as they come, an interrupt at once; the caller closes what the threads
    wait for. Unlike an executor's, these threads do not delay the end of the process.
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
            except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
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
    """Return what `act` returns for each item, in order; see `as_completed`."""
    found = dict(as_completed(act, items, at_once))
    return [found[place] for place in range(len(found))]


def catch_errors(act: Callable[[One], Result]) -> Callable[[One], Result | LaunchError]:
    """Make `act` return its LaunchError, so that one failed host ends no other."""

    def caught(item: One) -> Result | LaunchError:
        try:
            return act(item)
        except LaunchError as error:
            return error

    return caught


MOST_UNREAD = 1 << 20
_TURN_SECONDS = 0.01


class Flow:
    """Flow control of one sender: bytes that one thread reads and another takes.

    With too many unread bytes the sender waits, too, because its connection is full.
    """

    def __init__(self, most: int = MOST_UNREAD) -> None:
        self._most, self._read, self._taken = most, 0, 0

    def read(self, size: int, over: threading.Event) -> bool:
        """Wait for room for one more message; return False if `over` comes first."""
        while self._read - self._taken > self._most:
            if over.is_set():
                return False
            time.sleep(_TURN_SECONDS)
        self._read += size
        return True

    def take(self, size: int) -> None:
        """Count a taken message."""
        self._taken += size


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """Message of a program on a host.

    `say` is 'lost' once, when its connection is lost.

    at     when it was read, by the monotonic clock
    size   bytes of the message
    flow   flow control of the sender, which waits while too much is not `taken`
    """

    host: Host
    say: str
    values: dict[str, Any]
    at: float = field(default_factory=time.monotonic)
    size: int = 0
    flow: Flow | None = None

    def taken(self) -> None:
        """Make room for the next messages of the host."""
        if self.flow is not None:
            self.flow.take(self.size)


_AHEAD = 2
_AGAIN = "Run the same command again to resume"
_CHECK = "Run 'fab hosts.check' with the same hosts"
_SAME_CODE = "Install this checkout there with 'fab hosts.install' and the same hosts"
# Upper limit of a host's answer about one file.
_FILE_BYTES = 64
# Upper limit of late answers to earlier requests.
_MOST_LATE = 100
# These programs end if their controller is silent.
_BEATING = ("agent", "receiver")
Inbox = queue.SimpleQueue[Message]
Parsed = tuple[str, dict[str, Any]]
Parser = Callable[[bytes], Parsed | None]


class RemoteProgram:
    """Program on a host, started over its connection; `close` ends it.

    One thread reads its messages into an inbox and another writes to it, so that no caller waits
    for a stuck host. A program that breaks the protocol is lost: nothing more is read. `request`,
    `stream` or the owner of the inbox take its messages.
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
        """Start the program; `files` is the number of files in a receiver's requests."""
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
        """Send a message and its bytes; a closed connection ignores them.

        Raises LaunchError if a receiver has failed, is silent or is lost.
        """
        whole = json.dumps(message).encode() + b"\n" + data
        while True:
            if self._streams:
                self._take(0.0)
            with suppress(queue.Full):
                return self._outbox.put(whole, timeout=limits.BEAT_SECONDS)
            self._check_silence()

    def request(self, message: dict[str, Any], seconds: float, *expected: str) -> dict[str, Any]:
        """Send a message and return its answer, with its kind as `say`.

        Raises LaunchError if the program fails, ends or breaks the protocol, or does not answer
        within `seconds`. A late answer to an earlier request is skipped.
        """
        return next(self.answers(message, seconds, *expected))

    def answers(
        self, message: dict[str, Any], seconds: float, *expected: str
    ) -> Iterator[dict[str, Any]]:
        """Send a message and yield its answers, as `request` returns the only one."""
        self._requests += 1
        self.send({**message, "n": self._requests})
        deadline, late = time.monotonic() + seconds, 0
        while late < _MOST_LATE:
            answer = self._take(max(0.0, deadline - time.monotonic()))
            if answer is None:
                problem = f"no answer within {seconds:.0f} s to {message['do']!r}"
                fix = "Check whether the host is overloaded, or its disk or a file system hangs"
                raise LaunchError(error_line(self.host.name, problem=problem, fix=fix))
            if answer.values["n"] != self._requests:
                late += 1
                continue
            values = {name: value for name, value in answer.values.items() if name != "n"}
            if answer.say == "broken":
                raise LaunchError(error_line(self.host.name, problem=values["why"]))
            if answer.say not in expected:
                raise self.protocol_error(f"expected {' or '.join(expected)}, got {answer.say}")
            yield {"say": answer.say, **values}
        raise self.protocol_error("expected one answer, got answers to other requests")

    def stream(self, say: str) -> Iterator[Parsed]:
        """Yield kinds and fields of messages, heartbeats too.

        The last one is of kind `say`.

        Raises LaunchError if the program has failed, is silent or is lost.
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
        """Close the connection, which ends the program, and wait `seconds` for its end.

        With 0 it does not wait, and closes the connection to another host. A stuck connection is
        left to its threads.
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
        """End the program without waiting; on another host by closing the connection."""
        self.close(limits.ABANDON_SECONDS if self.host.login is None else 0.0)

    def protocol_error(self, why: str) -> LaunchError:
        """Return the error for a program that broke the protocol."""
        name = "receiver" if self._streams else "probe"
        problem = f"the {name} broke the protocol: {why}"
        return LaunchError(error_line(self.host.name, problem=problem, fix=_SAME_CODE))

    def _take(self, seconds: float) -> Message | None:
        """Return the next message or None; LaunchError if it is the last."""
        try:
            message = self._inbox.get(timeout=seconds)
        except queue.Empty:
            return None
        message.taken()
        why = message.values.get("why", "")
        if message.say == "lost" and self.violation:
            raise self.protocol_error(self.violation)
        if message.say == "lost" and self._streams:
            why = why or "the receiver ended, or the connection was lost"
            raise LaunchError(error_line(self.host.name, problem=why, fix=_AGAIN))
        if message.say == "lost":
            why = why or "the connection was lost"
            problem = f"the probe ended: {why}"
            raise LaunchError(error_line(self.host.name, problem=problem, fix=_CHECK))
        if message.say == "failed" and self._streams:
            raise LaunchError(error_line(self.host.name, problem=why))
        return message

    def _check_silence(self) -> None:
        if self._streams and time.monotonic() - self._last_read > limits.STREAM_SILENCE_SECONDS:
            why = f"no message for {limits.STREAM_SILENCE_SECONDS:.0f} s"
            raise LaunchError(error_line(self.host.name, problem=why, fix=_AGAIN))

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
