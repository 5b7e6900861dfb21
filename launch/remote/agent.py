"""Agent: starts, monitors and ends processes on one host for the controller.

It is sent over its connection and needs no installation on the host. Both sides send lines of JSON.

    to it    {"do": "start", "id", "argv", "env", "bare", "foreign", "cwd", "cores", "gpus",
              "family"} | {"do": "beat"} | {"do": "stop"} | {"do": "lease", "owner"}
             | {"do": "port", "address", "wanted"}
    from it  {"say": "hello", "pid"} | "beat" at stopped cpu delay gpu machine | "started" id pid
             | "refused" id why | "event" id lines | "output" id lines | "exit" id code
             | "exit" id signal oom | "stopped" | "leased" | "port" port | "port" why
             | "ending" why stopped | "rejected" why, of a line that is no command

`oom`, of SIGKILL only: whether the kernel has killed processes for lack of memory since the job
began; absent if it does not count them. `stopped` lists the ids of processes that SIGSTOP or a
debugger has suspended. `cpu` has the CPU seconds of each process until `at` (the host's monotonic
clock), `delay` the seconds that the threads of each bare one waited for a CPU, if the kernel
counts them, `gpu` the load of each GPU by index if a process uses GPUs, `machine` the counters of
launch/remote/telemetry.py while processes run.
The agent ends every process it started, and all descendants, on "stop", when its connection closes,
and after five seconds without a message from the controller.
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
from launch.remote.errors import LaunchError, ProtocolError, error_line
from launch.remote.processes import (
    Child,
    Lines,
    adopt_orphans,
    children_by_parent,
    raise_open_files,
    signal_all,
    split_events,
    start,
)
from launch.remote.telemetry import Counters, Gpus, oom_kills

_LOWEST, _EPHEMERAL = 10_000, Path("/proc/sys/net/ipv4/ip_local_port_range")
_TRIES = 100
# The last two are raised for invalid addresses.
_UNUSABLE = (OSError, OverflowError, TypeError, ValueError)


def free_port(address: str, wanted: int | None = None) -> int:
    """Return a port that this machine can bind now: `wanted`, or any.

    Raises LaunchError if it is in use, or none was found.
    """
    if wanted is not None:
        try:
            _bind(address, wanted)
        except _UNUSABLE as error:
            raise LaunchError(
                error_line(
                    f"--port {wanted}",
                    problem=f"cannot be used on {address} ({error})",
                    fix="Choose another port, or leave out --port to use a free one",
                )
            ) from error
        return wanted
    # Below the ephemeral ports that the kernel gives to outgoing connections.
    first_ephemeral = int(_EPHEMERAL.read_text(encoding="ascii").split()[0])
    highest = max(_LOWEST + 1000, first_ephemeral - 1)
    for _ in range(_TRIES):
        port = random.randint(_LOWEST, highest)
        with contextlib.suppress(*_UNUSABLE):
            _bind(address, port)
            return port
    raise LaunchError(
        error_line(
            address,
            expected=f"a free port of {_LOWEST} to {highest}",
            got="none",
            fix="End programs that listen there, or choose another address with --interface NAME",
        )
    )


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
        "foreign": {commands.NOTHING, list},
        "cwd": str,
        "cores": [int],
        "gpus": {commands.NOTHING, list},
        "family": {commands.NOTHING, bool},
    },
    "beat": {},
    "stop": {},
    "lease": {"owner": dict},
    "port": {"address": str, "wanted": {int, commands.NOTHING}},
}


class Agent:
    """State of one agent; `run` serves the controller until the end."""

    def __init__(self) -> None:
        self.children: dict[int, Child] = {}
        self.unsent = bytearray()
        self.files = raise_open_files()
        self.selector = selectors.DefaultSelector()
        self.master = Lines(0)
        self.last_read = self.beaten = time.monotonic()
        self.over = ""
        self.lease: lease.Lease | None = None
        self.stopped = False
        self.gpus = Gpus()
        self.counters = Counters()
        self.oom_kills: int | None = None

    def run(self) -> None:
        """Serve the controller until it stops this agent, disconnects or is silent."""
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
        except Exception as error:  # noqa: BLE001 - after any error no process is left
            self.over = (
                f"the agent failed: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
            )
        self.say(say="ending", why=self.over, stopped=self.stopped)
        self._end_all()
        deadline = time.monotonic() + limits.FLUSH_SECONDS
        while self.unsent and time.monotonic() < deadline:
            time.sleep(0.01)
            self._send()

    def say(self, **message: Any) -> None:
        """Queue a message to the controller.

        The loop sends it when the connection accepts it.
        """
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
            self.over = "lost the controller"

    def _end_now(self, number: int, _: object) -> None:
        self.stopped = number == signal.SIGUSR1
        by = "'fab hosts.stop'" if self.stopped else signal.Signals(number).name
        self.over = "ended by " + by

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
                time.sleep(
                    0.01
                )  # a process that prints faster than the connection sends has to wait
        self._reap()
        self._send()
        now = time.monotonic()
        if now - self.beaten >= limits.BEAT_SECONDS:
            self._beat(now)
        limit = limits.CONTROLLER_SILENCE_SECONDS
        if now - self.last_read > limit and not select.select([0], [], [], 0)[0]:
            self.over = f"no message from the controller for {limit:.0f} s"

    def _beat(self, now: float) -> None:
        self.beaten = now
        # Once for all: a job can have hundreds of processes.
        family = any(child.family for child in self.children.values())
        below = children_by_parent() if family else {}
        states = {child.name: child.state(below) for child in self.children.values()}
        held = [name for name, (stopped, _) in states.items() if stopped]
        cpu = {name: seconds for name, (_, seconds) in states.items()}
        # Workers count their own, by window.
        servers = [child for child in self.children.values() if child.serves]
        waits = {child.name: child.run_delay() for child in servers}
        delay = {name: seconds for name, seconds in waits.items() if seconds is not None}
        uses_gpus = any(child.uses_gpus for child in self.children.values())
        gpus = self.gpus.beat(now) if uses_gpus else {"gpu": {}}
        machine: dict[str, Any] = {}
        if self.children:
            cores = {core for child in self.children.values() for core in child.cores}
            machine = self.counters.read(now, sum(cpu.values()), cores)
            machine["gpu_programs"] = self.gpus.others(now) if uses_gpus else []
            if uses_gpus:
                machine["energy"]["gpu"] = self.gpus.energy(now)
        self.say(say="beat", at=now, stopped=held, cpu=cpu, delay=delay, machine=machine, **gpus)

    def _obey(self) -> None:
        lines, closed = self.master.read()
        self.last_read = time.monotonic()
        for line in lines:
            if self.over:  # another controller uses the host
                break
            try:
                self._do(commands.parsed(line, _COMMANDS))
            except ProtocolError as error:  # the processes continue unless the controller ends them
                self.say(say="rejected", why=str(error))
            self.last_read = time.monotonic()  # starting hundreds of processes takes longer
        self.over = self.over or ("its connection closed" if closed else "")

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
        """End the job; report it once all processes are gone and their output is sent."""
        ended = self._end_all()
        for key in list(self.selector.get_map().values()):
            if isinstance(key.data, tuple):
                self._pass_on(*key.data)
        if ended:
            self.say(say="stopped")

    def _lease(self, owner: dict[str, Any]) -> None:
        """Take the lease of the host for this controller, as long as this process lives."""
        try:
            self.lease, other = lease.take(owner)
        except OSError as error:
            self.over = f"the lease of the host cannot be taken ({error.strerror or error})"
            return
        if self.lease is None:
            self.over = f"another controller uses this host: {lease.described(other)}"
        else:
            self.selector.register(self.lease, selectors.EVENT_READ, "lease")
            self.say(say="leased")

    def _start(self, message: dict[str, Any]) -> None:
        if not self.children:
            self.oom_kills = oom_kills()
        try:
            child = start(message, self.files)
        except (OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
            cwd = message["cwd"]
            why = str(error) if os.path.isdir(cwd) else f"no such folder: {cwd}"  # noqa: PTH112
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
        for one, some in (split_events(lines) if child.serves else {kind: lines}).items():
            if some:
                self.say(say=one, id=child.name, lines=some)
        if closed:
            fd = child.streams.pop(kind).fd
            self.selector.unregister(fd)
            os.close(fd)

    def _reap(self) -> bool:
        """Report ended children after their last output.

        Return whether any descendant is left.

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
            self.say(say="exit", id=child.name, **child.ended(status), **self._oom(status))

    def _oom(self, status: int) -> dict[str, bool]:
        """Return whether the kernel killed for lack of memory, if SIGKILL was the end."""
        if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL:
            return {}
        before, now = self.oom_kills, oom_kills()
        return {} if before is None or now is None else {"oom": now > before}

    def _end_all(self) -> bool:
        """Send SIGTERM, wait two seconds, send SIGKILL.

        Return whether every descendant is gone.
        """
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
    """Run an agent on this process's stdin and stdout; stderr is not used."""
    Agent().run()
