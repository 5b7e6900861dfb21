"""The agent: starts, watches and ends processes on one host, at the other end of one channel.

It is sent over the channel and run before anything of ours is installed there. It speaks lines of
JSON, both ways.

    to it    {"do": "start", "id", "argv", "env", "bare", "cwd", "cores", "gpus"} | {"do": "beat"}
             | {"do": "stop"} | {"do": "lease", "owner"} | {"do": "port", "address", "wanted"}
    from it  {"say": "hello", "pid"} | "beat" at stopped cpu gpu machine | "started" id pid
             | "refused" id why | "event" id lines | "output" id lines | "exit" id code
             | "exit" id signal | "stopped" | "leased" | "port" port | "port" why
             | "ending" why stopped | "rejected" why, of a line that is no command

`stopped` lists the ids of processes that are held, by SIGSTOP or a debugger; `cpu` has the CPU
seconds of each until `at`, a time of the host's monotonic clock, `gpu` how busy each GPU is, by
index, where some process uses GPUs and that can be known; `machine` what launch/remote/telemetry.py
counts, while there are processes.
It ends every process it started, and all their descendants, when it is told to stop, when its
channel closes and when the master has been silent for five seconds.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import contextlib
import json
import os
import random
import select
import selectors
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from launch.remote import commands, lease, limits
from launch.remote.errors import LaunchError, ProtocolError
from launch.remote.processes import Child, Lines, adopt_orphans, signal_all, start
from launch.remote.telemetry import Counters, Gpus

_LOWEST, _EPHEMERAL = 10_000, Path("/proc/sys/net/ipv4/ip_local_port_range")
_TRIES = 100
# The last two are for what is no address at all.
_UNUSABLE = (OSError, OverflowError, TypeError, ValueError)


def free_port(address: str, wanted: int | None = None) -> int:
    """A port of this machine that can be bound now: `wanted`, or any.

    Raises LaunchError where it is in use, or none was found.
    """
    if wanted is not None:
        try:
            _bind(address, wanted)
        except _UNUSABLE as error:
            raise LaunchError(
                f"port {wanted} on {address} cannot be used ({error}); "
                f"choose another with --port, or leave it out to have a free one found"
            ) from error
        return wanted
    # Below those that the kernel deals out to whatever connects to something.
    first_ephemeral = int(_EPHEMERAL.read_text(encoding="ascii").split()[0])
    highest = max(_LOWEST + 1000, first_ephemeral - 1)
    for _ in range(_TRIES):
        port = random.randint(_LOWEST, highest)
        with contextlib.suppress(*_UNUSABLE):
            _bind(address, port)
            return port
    raise LaunchError(f"no port of {_LOWEST} to {highest} on {address} can be bound")


def _bind(address: str, port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((address, port))


_UNSENT_BYTES = 8 << 20
_COMMANDS: dict[str, dict[str, Any]] = {
    "start": {
        "id": str,
        "argv": [str],
        "env": {str: str},
        "bare": {commands.NOTHING, bool},
        "cwd": str,
        "cores": [int],
        "gpus": {commands.NOTHING, list},
    },
    "beat": {},
    "stop": {},
    "lease": {"owner": dict},
    "port": {"address": str, "wanted": {int, commands.NOTHING}},
}


class Agent:
    """The state of one agent; `run` is its life."""

    def __init__(self) -> None:
        self.children: dict[int, Child] = {}
        self.unsent = bytearray()
        self.selector = selectors.DefaultSelector()
        self.master = Lines(0)
        self.last_read = self.beaten = time.monotonic()
        self.over = ""
        self.lease: lease.Lease | None = None
        self.stopped = False
        self.gpus = Gpus()
        self.counters = Counters()

    def run(self) -> None:
        """Serves the master until it stops this agent, closes the channel or falls silent."""
        adopt_orphans()
        os.set_blocking(1, False)
        woken, waker = os.pipe()
        for fd in (woken, waker):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waker)
        for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(name, self._end_now)
        self.selector.register(0, selectors.EVENT_READ, "master")
        self.selector.register(woken, selectors.EVENT_READ, "child")
        self.say(say="hello", pid=os.getpid())
        try:
            while not self.over:
                self._turn()
        except Exception as error:  # noqa: BLE001 - whatever it is, no process is left
            self.over = f"it failed: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        self.say(say="ending", why=self.over, stopped=self.stopped)
        self._end_all()
        deadline = time.monotonic() + limits.FLUSH_SECONDS
        while self.unsent and time.monotonic() < deadline:
            time.sleep(0.01)
            self._send()

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

    def _end_now(self, number: int, _: object) -> None:
        self.stopped = number == signal.SIGUSR1
        by = "'fab hosts.stop'" if self.stopped else signal.Signals(number).name
        self.over = "it was ended by " + by

    def _turn(self) -> None:
        for key, _ in self.selector.select(0.02 if self.unsent else 0.25):
            if key.data == "master":
                self._obey()
            elif key.data == "child":
                os.read(key.fd, 4096)
            elif key.data == "lease":
                assert self.lease is not None
                self.lease.answer()
            elif len(self.unsent) < _UNSENT_BYTES:
                self._pass_on(*key.data)
            else:
                time.sleep(0.01)  # a process that prints more than the channel takes has to wait
        self._reap()
        self._send()
        now = time.monotonic()
        if now - self.beaten >= limits.BEAT_SECONDS:
            self._beat(now)
        limit = limits.CONTROLLER_SILENCE_SECONDS
        if now - self.last_read > limit and not select.select([0], [], [], 0)[0]:
            self.over = f"it heard nothing from the master for {limit:.0f} s"

    def _beat(self, now: float) -> None:
        self.beaten = now
        states = {child.name: child.state() for child in self.children.values()}
        held = [name for name, (stopped, _) in states.items() if stopped]
        cpu = {name: seconds for name, (_, seconds) in states.items()}
        uses_gpus = any(child.uses_gpus for child in self.children.values())
        busy = self.gpus.busy(now) if uses_gpus else {}
        machine: dict[str, Any] = {}
        if self.children:
            cores = {core for child in self.children.values() for core in child.cores}
            machine = self.counters.read(now, sum(cpu.values()), cores)
            machine["gpu_programs"] = self.gpus.others(now) if uses_gpus else []
            if uses_gpus:
                machine["energy"]["gpu"] = self.gpus.energy(now)
        self.say(say="beat", at=now, stopped=held, cpu=cpu, gpu=busy, machine=machine)

    def _obey(self) -> None:
        lines, closed = self.master.read()
        self.last_read = time.monotonic()
        for line in lines:
            if self.over:  # the host is another master's
                break
            try:
                self._do(commands.parsed(line, _COMMANDS))
            except ProtocolError as error:  # the processes go on, unless the master ends them
                self.say(say="rejected", why=str(error))
            self.last_read = time.monotonic()  # to start hundreds of processes takes longer
        self.over = self.over or ("its channel closed" if closed else "")

    def _do(self, message: dict[str, Any]) -> None:
        if message["do"] == "start":
            self._start(message)
        elif message["do"] == "stop":
            self._stop()
        elif message["do"] == "lease":
            self._lease(message["owner"])
        elif message["do"] == "port":
            try:
                self.say(say="port", port=free_port(message["address"], message["wanted"]))
            except LaunchError as error:
                self.say(say="port", port=0, why=str(error))

    def _stop(self) -> None:
        """Ends the job; says so once nothing is left of it, no line of output either."""
        ended = self._end_all()
        for key in list(self.selector.get_map().values()):
            if isinstance(key.data, tuple):
                self._pass_on(*key.data)
        if ended:
            self.say(say="stopped")

    def _lease(self, owner: dict[str, Any]) -> None:
        """Keeps the host for this master alone, as long as this process lives."""
        try:
            self.lease, other = lease.take(owner)
        except OSError as error:
            self.over = f"its lease cannot be taken ({error.strerror or error})"
            return
        if self.lease is None:
            self.over = f"another master has this host: {lease.described(other)}"
        else:
            self.selector.register(self.lease, selectors.EVENT_READ, "lease")
            self.say(say="leased")

    def _start(self, message: dict[str, Any]) -> None:
        try:
            child = start(message)
        except (OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
            cwd = message["cwd"]
            why = str(error) if os.path.isdir(cwd) else f"there is no folder {cwd}"  # noqa: PTH112
            self.say(say="refused", id=message["id"], why=why)
            return
        self.children[child.popen.pid] = child
        for kind, stream in child.streams.items():
            self.selector.register(stream.fd, selectors.EVENT_READ, (child, kind))
        self.say(say="started", id=child.name, pid=child.popen.pid)

    def _pass_on(self, child: Child, kind: str) -> None:
        if kind not in child.streams:
            return
        lines, closed = child.streams[kind].read()
        if lines:
            self.say(say=kind, id=child.name, lines=lines)
        if closed:
            fd = child.streams.pop(kind).fd
            self.selector.unregister(fd)
            os.close(fd)

    def _reap(self) -> bool:
        """Reports ended children, after what they said last; whether any descendant is left.

        Orphans become this process's children: without a child there is no descendant.
        """
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            child = self.children.pop(pid, None)
            if child is None:
                continue
            for kind in ("event", "output"):
                self._pass_on(child, kind)
            self.say(say="exit", id=child.name, **child.ended(status))

    def _end_all(self) -> bool:
        """TERM, two seconds, KILL; whether every descendant is gone."""
        if self._reap():
            signal_all(signal.SIGTERM)
        deadline = time.monotonic() + limits.GRACE_SECONDS
        while self._reap() and time.monotonic() < deadline:
            time.sleep(0.01)
        deadline = time.monotonic() + limits.GRACE_SECONDS
        while self._reap() and time.monotonic() < deadline:
            signal_all(signal.SIGKILL)
            time.sleep(0.01)
        return not self._reap()


def main() -> None:
    """Runs an agent on this process's stdin and stdout; stderr stays the host's own."""
    Agent().run()
