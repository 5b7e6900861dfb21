"""Logs of a job's processes.

One file each within a byte budget, compressed at the end.

NAME.log.1 has the older lines of NAME.log if the output exceeds half the budget.
NAME.events.jsonl has the process's events as the controller received them; the windows of a record
can be rebuilt from it.
"""

import contextlib
import gzip
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from im2rec_tools import files
from launch.job.plan import Process
from launch.remote.errors import LaunchError, error_line
from launch.transport.client import Message
from results import worker_log
from results.run_folder import EVENTS, HOSTS, RECORDED, TRY, try_folders
from results.worker_log import MOST_BYTES

BUDGET_BYTES = 16 << 20
# Older tries of a repeat whose logs are kept.
MOST_TRIES = 20
COMPRESS_ABOVE_BYTES = 64 << 10


class _Log:
    """Log of one process: two files that together hold its latest output."""

    def __init__(self, path: Path, most: int) -> None:
        self._path, self._most = path, most
        self._older = path.with_name(path.name + ".1")
        self._file = path.open("wb", buffering=0)
        self._size = self._header = self._older_printed = self._dropped = 0

    def write(self, lines: Iterable[str]) -> None:
        """Append lines; cut those that exceed a whole file."""
        pending = bytearray()
        for line in lines:
            data = line.encode("utf-8", "replace")[: self._most // 2] + b"\n"
            if self._size + len(pending) + len(data) > self._most:
                self._put(pending)
                pending.clear()
                self._turn()
            pending += data
        self._put(pending)

    def _put(self, data: bytes | bytearray) -> None:
        self._size += len(data)
        rest = memoryview(bytes(data))
        while rest:  # a nearly full disk accepts a part
            rest = rest[self._file.write(rest) :]

    def _turn(self) -> None:
        self._path.replace(self._older)
        new = self._path.open("wb", buffering=0)  # if this fails, the older one stays open
        self._file.close()
        self._dropped += self._older_printed
        self._older_printed = self._size - self._header
        self._file, self._size = new, 0
        header = f"(mxscale: {self._older.name} has the lines before this; the first "
        self._put(f"{header}{self._dropped} bytes exceeded --log-budget)\n".encode())
        self._header = self._size

    def close(self) -> None:
        self._file.close()


class Logs:
    """Logs of one job in a folder of its own; those of an earlier try are moved aside."""

    def __init__(
        self, folder: Path, processes: Sequence[Process], budget: int, started: str = ""
    ) -> None:
        """Create the folder; `budget` is in bytes per process. LaunchError if that fails.

        `started` names the record of the logs. Without it, they belong to no record.
        """
        self._folder, self._most = folder, budget // 2
        self._logs: dict[str, _Log] = {}
        self._events: dict[str, int] = {}
        hosts = {process.id: process.host.name for process in processes}
        with self._writing():
            folder.mkdir(parents=True, exist_ok=True)
            if started:
                keep_try(folder, budget * len(processes))
            # The owner is removed first and written last: incomplete logs belong to no record.
            for left in [folder / RECORDED, *folder.glob("*.log*"), *folder.glob(f"*{EVENTS}*")]:
                left.unlink(missing_ok=True)
            (folder / HOSTS).write_text(json.dumps(hosts), encoding="utf-8")
            if started:
                text = json.dumps({"started": started}) + "\n"
                (folder / RECORDED).write_text(text, encoding="utf-8")

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise LaunchError(
                error_line(
                    self._folder,
                    problem=f"cannot be written ({error.strerror}); earlier records are kept",
                    fix="Free disk space and run the same command again",
                )
            ) from error

    def write(self, name: str, lines: Iterable[str]) -> None:
        """Append the output of a process; LaunchError if it cannot be written."""
        with self._writing():
            if name not in self._logs:
                self._logs[name] = _Log(self._folder / f"{name}.log", self._most)
            self._logs[name].write(lines)

    def mark_started(self, name: str) -> None:
        """Create the log of a process, which stays empty if it prints nothing."""
        with contextlib.suppress(OSError):  # the next write reports a full disk
            (self._folder / f"{name}.log").touch()

    def keep(self, name: str, lines: Sequence[str]) -> None:
        """Append the events of a process; LaunchError if they cannot be written.

        The file is not kept open: a large job would exceed the limit on open files.
        """
        data = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
        self._events[name] = self._events.get(name, 0) + len(data)
        if self._events[name] <= MOST_BYTES:
            with self._writing(), (self._folder / f"{name}{EVENTS}").open("ab") as file:
                file.write(data)

    def take(self, message: Message) -> None:
        """Take a process's start, output or events from an agent's message."""
        if message.say == "output":
            self.write(message.values["id"], message.values["lines"])
        elif message.say == "event":
            self.keep(message.values["id"], message.values["lines"])
        elif message.say == "started":
            self.mark_started(message.values["id"])

    def close(self) -> None:
        """Close the files."""
        for log in self._logs.values():
            with contextlib.suppress(OSError):
                log.close()


def keep_try(folder: Path, most: int) -> None:
    """Move the logs of a recorded try into a folder try-N of their own.

    Deletes the oldest tries while all together exceed `most` bytes or `MOST_TRIES`.
    """
    if not (folder / RECORDED).is_file():
        return
    before = try_folders(folder)
    number = int(before[-1].name.removeprefix(TRY)) + 1 if before else 1
    kept = folder / f"{TRY}{number}"
    kept.mkdir()
    # The owner is moved last: an incomplete try belongs to no record.
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    for name in [*(name for name in names if name != RECORDED), RECORDED]:
        (folder / name).replace(kept / name)
    kept_folders = [*before, kept]
    sizes = [sum(path.stat().st_size for path in one.iterdir()) for one in kept_folders]
    while len(sizes) > MOST_TRIES or (sizes and sum(sizes) > most):
        shutil.rmtree(kept_folders.pop(0))
        sizes.pop(0)


def compress(folder: Path) -> None:
    """Compress the large logs of a finished job; skip those that cannot be compressed."""
    for path in [*folder.glob("*.log"), *folder.glob("*.log.1"), *folder.glob(f"*{EVENTS}")]:
        part = files.part_of(path)
        try:
            if path.stat().st_size > COMPRESS_ABOVE_BYTES:
                with path.open("rb") as raw, files.create(part) as file:
                    with gzip.open(file, "wb", compresslevel=1) as packed:
                        shutil.copyfileobj(raw, packed, 1 << 20)
                    part.replace(path.with_name(path.name + ".gz"))
                path.unlink()
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)


def compress_again(logs: Path) -> None:
    """Finish the compression that an interrupted sweep left, in every folder of a run."""
    for folder in logs.glob("*/*/"):
        names = set(os.listdir(folder))  # noqa: PTH208 - paths of thousands take much longer
        packed = {f"{name}.gz" for name in names} & names
        left = packed | {name for name in names if name.endswith(".part")}
        if left and RECORDED in names:
            with contextlib.suppress(OSError):
                for name in left:
                    (folder / name).unlink()
                compress(folder)


def files_of(folder: Path, name: str) -> list[Path]:
    """Return the files of a process's log, oldest first, compressed or not."""
    older, newer = folder / f"{name}.log.1", folder / f"{name}.log"
    packed = [(path, path.with_name(path.name + ".gz")) for path in (older, newer)]
    found = [next((one for one in pair if one.is_file()), None) for pair in packed]
    return [path for path in found if path is not None]


def is_started(folder: Path, name: str) -> bool:
    """Return whether a process of a job was started.

    Earlier versions wrote no empty logs.
    """
    return bool(files_of(folder, name)) or name in worker_log.event_files(folder)


def lines_of(folder: Path, name: str) -> Iterator[str]:
    """Yield the lines of a process's log, oldest first."""
    for path in files_of(folder, name):
        yield from worker_log.read_lines(path)
