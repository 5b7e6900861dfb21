"""The agent: starts, watches and ends processes on one host, at the other end of one channel.

Standard library only and Python 3.8 or newer: it is sent over the channel and run before anything
of ours is installed there. It speaks lines of JSON, both ways.

    to it    {"do": "start", "id", "argv", "env", "cwd", "cores"} | {"do": "beat"} | {"do": "stop"}
    from it  {"say": "hello", "pid"} | "beat" | "started" id pid | "refused" id why
             | "event" id line | "output" id line | "exit" id code | "exit" id signal | "stopped"
             | "ending" why

It ends every process it started, and all their descendants, when it is told to stop, when its
channel closes and when the master has been silent for five seconds.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_BEAT_SECONDS = 1.0
_SILENCE_SECONDS = 5.0
_GRACE_SECONDS = 2.0
_EVENTS_FD_VARIABLE = "MXSCALE_EVENTS"
# ps-lite reads these from the environment: one left over there would join another job.
_FOREIGN = ("DMLC_", "PS_")

_libc = ctypes.CDLL(None, use_errno=True)


class _Lines:
    """Whole lines out of a file descriptor that is read piece by piece."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.rest = b""
        os.set_blocking(fd, False)

    def read(self) -> tuple[list[str], bool]:
        """The lines that are complete now, and whether the other end has closed."""
        closed = False
        while True:
            try:
                piece = os.read(self.fd, 65536)
            except BlockingIOError:
                break
            if not piece:
                closed = True
                break
            self.rest += piece
        *lines, self.rest = self.rest.split(b"\n")
        if closed and self.rest:
            lines.append(self.rest)
            self.rest = b""
        return [line.decode("utf-8", "replace") for line in lines], closed


class _Child:
    """A process that was started, with its two streams."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes], output: int, events: int) -> None:
        self.name, self.popen = name, popen
        self.streams = {"output": _Lines(output), "event": _Lines(events)}


class Agent:
    """The state of one agent; `run` is its life."""

    def __init__(self) -> None:
        self.children: dict[int, _Child] = {}
        self.unsent = bytearray()
        self.selector = selectors.DefaultSelector()
        self.master = _Lines(0)
        self.heard = self.beaten = time.monotonic()
        self.over = ""

    def run(self) -> None:
        """Serves the master until it stops this agent, closes the channel or falls silent."""
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        os.set_blocking(1, False)
        woken, waker = os.pipe()
        for fd in (woken, waker):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker)
        for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(name, self._end_now)
        self.selector.register(0, selectors.EVENT_READ, "master")
        self.selector.register(woken, selectors.EVENT_READ, "child")
        self.say(say="hello", pid=os.getpid())
        while not self.over:
            self._turn()
        self.say(say="ending", why=self.over)
        self._end_all()
        self._flush_until(time.monotonic() + 1.0)

    def say(self, **message: Any) -> None:
        """Queues a message to the master; the loop sends it as the channel takes it."""
        self.unsent += (json.dumps(message) + "\n").encode()
        self._send()

    def _send(self) -> None:
        try:
            while self.unsent:
                del self.unsent[: os.write(1, self.unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self.unsent.clear()
            self.over = "the master is gone"

    def _flush_until(self, deadline: float) -> None:
        while self.unsent and time.monotonic() < deadline:
            time.sleep(0.01)
            self._send()

    def _end_now(self, number: int, _: object) -> None:
        self.over = "it was ended by " + signal.Signals(number).name

    def _turn(self) -> None:
        for key, _ in self.selector.select(0.02 if self.unsent else 0.25):
            if key.data == "master":
                self._obey()
            elif key.data == "child":
                os.read(key.fd, 4096)
            else:
                self._pass_on(*key.data)
        self._reap()
        self._send()
        now = time.monotonic()
        if now - self.beaten >= _BEAT_SECONDS:
            self.beaten = now
            self.say(say="beat")
        if now - self.heard > _SILENCE_SECONDS:
            self.over = f"it heard nothing from the master for {_SILENCE_SECONDS:.0f} s"

    def _obey(self) -> None:
        lines, closed = self.master.read()
        self.heard = time.monotonic()
        for line in lines:
            message = json.loads(line)
            if message["do"] == "start":
                self._start(message)
            elif message["do"] == "stop":
                self._end_all()
                self.say(say="stopped")
        self.over = self.over or ("its channel closed" if closed else "")

    def _start(self, message: dict[str, Any]) -> None:
        output, output_end = os.pipe()
        events, events_end = os.pipe()
        try:
            popen = subprocess.Popen(
                message["argv"],
                cwd=message["cwd"],
                env=_environment(message, events_end),
                stdin=subprocess.DEVNULL,
                stdout=output_end,
                stderr=output_end,
                pass_fds=(events_end,),
                start_new_session=True,
                preexec_fn=_prepare(message["cores"], os.getpid()),  # noqa: PLW1509 - one thread
            )
        except (OSError, subprocess.SubprocessError) as error:
            for fd in (output, events):
                os.close(fd)
            self.say(say="refused", id=message["id"], why=str(error))
            return
        finally:
            os.close(output_end)
            os.close(events_end)
        child = _Child(message["id"], popen, output, events)
        self.children[popen.pid] = child
        for kind, stream in child.streams.items():
            self.selector.register(stream.fd, selectors.EVENT_READ, (child, kind))
        self.say(say="started", id=child.name, pid=popen.pid)

    def _pass_on(self, child: _Child, kind: str) -> None:
        if kind not in child.streams:
            return
        lines, closed = child.streams[kind].read()
        for line in lines:
            self.say(say=kind, id=child.name, line=line)
        if closed:
            fd = child.streams.pop(kind).fd
            self.selector.unregister(fd)
            os.close(fd)

    def _reap(self) -> None:
        """Reports ended children, after what they said last; orphans of theirs just go."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = self.children.pop(pid, None)
            if child is None:
                continue
            for kind in ("event", "output"):
                self._pass_on(child, kind)
            if os.WIFSIGNALED(status):
                child.popen.returncode = -os.WTERMSIG(status)
                self.say(say="exit", id=child.name, signal=os.WTERMSIG(status))
            else:
                child.popen.returncode = os.WEXITSTATUS(status)
                self.say(say="exit", id=child.name, code=os.WEXITSTATUS(status))

    def _end_all(self) -> None:
        """TERM, two seconds, KILL, until no descendant is left."""
        deadline = time.monotonic() + _GRACE_SECONDS
        signal_all(signal.SIGTERM)
        while descendants() and time.monotonic() < deadline:
            self._reap()
            time.sleep(0.02)
        deadline = time.monotonic() + _GRACE_SECONDS
        while descendants() and time.monotonic() < deadline:
            signal_all(signal.SIGKILL)
            self._reap()
            time.sleep(0.01)
        self._reap()


def _environment(message: dict[str, Any], events_fd: int) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    # PORT would move ps-lite's own ports; a safe path would hide the tree from `python -m`.
    for name in ("PORT", "PYTHONSAFEPATH"):
        env.pop(name, None)
    env["PYTHONPATH"] = os.pathsep.join(
        part for part in (message["cwd"], env.get("PYTHONPATH")) if part
    )
    env.update(message["env"])
    env[_EVENTS_FD_VARIABLE] = str(events_fd)
    return env


def _prepare(cores: list[int], agent_pid: int) -> Callable[[], None]:
    """What a child does before it becomes the program: die with the agent, keep to its cores."""

    def prepare() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != agent_pid:
            os._exit(1)
        if cores:
            os.sched_setaffinity(0, cores)

    return prepare


def descendants() -> list[int]:
    """Pids of all processes below this one that are not zombies; orphans are adopted by it."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_bytes()
            except OSError:
                continue
            state, parent = stat.rpartition(b")")[2].split()[:2]
            if state != b"Z":
                parents[int(entry.name)] = int(parent)
    found: list[int] = []
    frontier = {os.getpid()}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier}
        found += frontier
    return found


def signal_all(number: int) -> None:
    """Sends a signal to every descendant; a stopped one is woken so that it can end."""
    for pid in descendants():
        try:
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            continue


def main() -> None:
    """Runs an agent on this process's stdin and stdout; stderr stays the host's own."""
    Agent().run()


if __name__ == "__main__":
    main()
    sys.exit(0)
