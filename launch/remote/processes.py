"""Processes of one host for its agent: start, read, measure and end them."""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_PIECES, _PIECE_BYTES, _LINE_BYTES = 2, 65536, 1 << 20
_EVENTS_FD_VARIABLE = "MXSCALE_EVENTS"
# Servers and schedulers send their few events on stdout, each after this character: a host can run
# hundreds, and a pipe more for each exceeds the usual limit of 1,024 open files.
_EVENT_MARK, _STDOUT = "\x1f", 1
MOST_FILES = 65536
# Parts of names of variables that servers and schedulers do not need.
_SECRETS = ("TOKEN", "SECRET", "PASS", "KEY", "CREDENTIAL")

# User and system time of a process and its ended children: /proc/PID/stat, proc(5).
_CPU, _TICKS = slice(11, 15), os.sysconf("SC_CLK_TCK")

_libc = ctypes.CDLL(None, use_errno=True)


class Lines:
    """Complete lines from a file descriptor that is read piece by piece."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.rest = b""
        os.set_blocking(fd, False)

    def read(self) -> tuple[list[str], bool]:
        """Return the lines that are complete now, and whether the other end has closed.

        Reads at most what a pipe holds, even if a process never pauses.
        """
        closed = False
        for _ in range(_PIECES):
            try:
                piece = os.read(self.fd, _PIECE_BYTES)
            except BlockingIOError:
                break
            if not piece:
                closed = True
                break
            self.rest += piece
        *lines, self.rest = self.rest.split(b"\n")
        if self.rest and (closed or len(self.rest) > _LINE_BYTES):
            lines.append(self.rest)
            self.rest = b""
        return [line.decode("utf-8", "replace") for line in lines], closed


def split_events(lines: Iterable[str]) -> dict[str, list[str]]:
    """Return the lines of a stdout with events, by 'event' and 'output'."""
    found: dict[str, list[str]] = {"event": [], "output": []}
    for line in lines:
        text, mark, event = line.partition(_EVENT_MARK)
        if mark:
            found["event"].append(event)
        if text or not mark:
            found["output"].append(text)
    return found


class Child:
    """A started process with its streams by name: 'output' and, of a worker, 'event'."""

    def __init__(
        self, wanted: dict[str, Any], popen: subprocess.Popen[bytes], streams: dict[str, int]
    ) -> None:
        self.name, self.popen = wanted["id"], popen
        self.uses_gpus = bool(wanted.get("gpus"))
        self.serves = bool(wanted.get("bare"))
        self.family = bool(wanted.get("family"))
        self.cores: list[int] = wanted["cores"]
        self.streams = {name: Lines(fd) for name, fd in streams.items()}

    def run_delay(self) -> float | None:
        """Return the seconds that its threads were ready to run and had no CPU.

        Field 2 of /proc/PID/task/*/schedstat, of the threads that are alive; None if the kernel
        does not count.
        """
        waited, counted = 0, False
        for path in Path(f"/proc/{self.popen.pid}/task").glob("*/schedstat"):
            try:
                waited += int(path.read_bytes().split()[1])
                counted = True
            except (OSError, IndexError, ValueError):  # the thread has ended
                continue
        return waited / 1e9 if counted else None

    def state(self, below: dict[int, list[int]]) -> tuple[bool, float]:
        """Return whether SIGSTOP or a debugger has suspended it, and its CPU seconds.

        below  the machine's processes by parent; only a family's are used
        """
        fields = _stat(self.popen.pid)
        if len(fields) <= _CPU.stop:
            return False, 0.0
        seconds = _cpu_seconds(fields)
        if self.family:
            seconds += sum(map(_cpu_seconds, map(_stat, descendants(self.popen.pid, below))))
        return fields[0] in (b"T", b"t"), seconds

    def ended(self, status: int) -> dict[str, int]:
        """Return its signal or its exit code, by the status of waitpid."""
        if os.WIFSIGNALED(status):
            self.popen.returncode = -os.WTERMSIG(status)
            return {"signal": os.WTERMSIG(status)}
        self.popen.returncode = os.WEXITSTATUS(status)
        return {"code": os.WEXITSTATUS(status)}


def raise_open_files() -> tuple[int, int]:
    """Raise the soft limit on open files; return both limits as they were."""
    soft, hard = before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return before


def start(wanted: dict[str, Any], files: tuple[int, int]) -> Child:
    """Start a process: id, argv, env, bare, foreign, cwd, cores, gpus, family.

    `files` are its limits on open files. OSError, SubprocessError if not.
    """
    pipes: dict[str, tuple[int, int]] = {}
    try:
        for name in ("output",) if wanted.get("bare") else ("output", "event"):
            pipes[name] = os.pipe()
        output_end = pipes["output"][1]
        events_end = pipes["event"][1] if "event" in pipes else _STDOUT
        popen = subprocess.Popen(
            wanted["argv"],
            cwd=wanted["cwd"],
            env=_environment(wanted, events_end),
            stdin=subprocess.DEVNULL,
            stdout=output_end,
            stderr=output_end,
            pass_fds=(events_end,) if "event" in pipes else (),
            start_new_session=True,
            preexec_fn=_prepare(wanted["cores"], os.getpid(), files),  # noqa: PLW1509 - one thread
        )
    except BaseException:
        for mine, _ in pipes.values():
            os.close(mine)
        raise
    finally:
        for _, end in pipes.values():
            os.close(end)
    return Child(wanted, popen, {name: mine for name, (mine, _) in pipes.items()})


def _environment(wanted: dict[str, Any], events_fd: int) -> dict[str, str]:
    foreign = tuple(wanted.get("foreign", ()))
    env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    # PORT would move ps-lite's own ports; a safe path would hide the tree from `python -m`.
    if wanted.get("bare"):
        env = {n: v for n, v in env.items() if not any(part in n.upper() for part in _SECRETS)}
    for name in ("PORT", "PYTHONSAFEPATH"):
        env.pop(name, None)
    env["PYTHONPATH"] = os.pathsep.join(
        part for part in (wanted["cwd"], env.get("PYTHONPATH")) if part
    )
    env.update(wanted["env"])
    env[_EVENTS_FD_VARIABLE] = str(events_fd)
    return env


def _prepare(cores: list[int], agent_pid: int, files: tuple[int, int]) -> Callable[[], None]:
    """Return the set-up of a child: end with the agent, its own cores and limits only."""

    def prepare() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != agent_pid:
            os._exit(1)
        resource.setrlimit(resource.RLIMIT_NOFILE, files)
        if cores:
            os.sched_setaffinity(0, cores)

    return prepare


def adopt_orphans() -> None:
    """Make this process the parent of every orphaned descendant."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _stat(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the state on.

    None if the process is gone.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []


def _cpu_seconds(fields: list[bytes]) -> float:
    """Return the CPU seconds of a process and of its ended children; 0 if it is gone."""
    return sum(map(int, fields[_CPU])) / _TICKS if len(fields) > _CPU.stop else 0.0


def children_by_parent() -> dict[int, list[int]]:
    """Return the pids of all processes by that of their parent, without zombies."""
    below: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields and fields[0] != b"Z":
                below.setdefault(int(fields[1]), []).append(int(entry.name))
    return below


def descendants(of: int, below: dict[int, list[int]] | None = None) -> list[int]:
    """Return the pids of all descendants that are not zombies.

    below  as `children_by_parent` returns it
    """
    below = children_by_parent() if below is None else below
    found: list[int] = []
    frontier = [of]
    while frontier:
        frontier = [pid for parent in frontier for pid in below.get(parent, [])]
        found += frontier
    return found


def signal_all(number: int) -> None:
    """Send a signal to every descendant; wake suspended ones so that they can end."""
    for pid in descendants(os.getpid()):  # it has adopted orphans
        try:
            os.kill(pid, number)
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            continue
