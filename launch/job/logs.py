"""The raw output of a job's processes: a file each, within a budget, compressed in the end.

NAME.log.1 is what came before NAME.log, where there was more than half the budget holds.
NAME.events.jsonl has the events of the process, as the controller received them: a record's windows
can be made from it again.
"""

import contextlib
import gzip
import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from im2rec_tools import files
from launch.job.plan import Process
from launch.remote.errors import LaunchError
from launch.transport.client import Message
from results import worker_log
from results.run_folder import EVENTS, HOSTS, RECORDED
from results.worker_log import MOST_BYTES

BUDGET_BYTES = 16 << 20
COMPRESS_ABOVE_BYTES = 64 << 10


class _Log:
    """The log of one process: two files that together hold what it printed last."""

    def __init__(self, path: Path, most: int) -> None:
        self._path, self._most = path, most
        self._older = path.with_name(path.name + ".1")
        self._file = path.open("wb", buffering=0)
        self._size = self._header = self._older_printed = self._dropped = 0

    def write(self, lines: Iterable[str]) -> None:
        """Adds lines; a line longer than a whole file is cut."""
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
        while rest:  # a disk that is nearly full takes a part
            rest = rest[self._file.write(rest) :]

    def _turn(self) -> None:
        self._path.replace(self._older)
        new = self._path.open("wb", buffering=0)  # where that fails the older one stays open
        self._file.close()
        self._dropped += self._older_printed
        self._older_printed = self._size - self._header
        self._file, self._size = new, 0
        header = f"(mxscale: {self._older.name} has what comes before this, without the first "
        self._put(f"{header}{self._dropped} bytes, dropped for want of --log-budget)\n".encode())
        self._header = self._size

    def close(self) -> None:
        self._file.close()


class Logs:
    """The logs of one job in a folder of their own; those of an attempt before are removed."""

    def __init__(
        self, folder: Path, processes: Sequence[Process], budget: int, started: str = ""
    ) -> None:
        """Makes the folder; `budget` is in bytes a process. LaunchError where it cannot be made.

        `started` names the record of the logs. As long as there is none, they count for none.
        """
        self._folder, self._most = folder, budget // 2
        self._logs: dict[str, _Log] = {}
        self._events: dict[str, int] = {}
        hosts = {process.id: process.host.name for process in processes}
        with self._writing():
            folder.mkdir(parents=True, exist_ok=True)
            # Whose they are goes first and comes last: half of them are of nobody.
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
                f"{self._folder}: cannot be written ({error.strerror}); make room and run the same "
                f"command again. Nothing recorded before is lost"
            ) from error

    def write(self, name: str, lines: Iterable[str]) -> None:
        """Adds what a process printed; LaunchError where it cannot be written."""
        with self._writing():
            if name not in self._logs:
                self._logs[name] = _Log(self._folder / f"{name}.log", self._most)
            self._logs[name].write(lines)

    def keep(self, name: str, lines: Sequence[str]) -> None:
        """Adds what a process reported of its work; LaunchError where it cannot be written.

        Not kept open: a job has twice as many processes as a master may have files.
        """
        data = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
        self._events[name] = self._events.get(name, 0) + len(data)
        if self._events[name] <= MOST_BYTES:
            with self._writing(), (self._folder / f"{name}{EVENTS}").open("ab") as file:
                file.write(data)

    def take(self, message: Message) -> None:
        """Adds the output or the events in an agent's message."""
        if message.say == "output":
            self.write(message.values["id"], message.values["lines"])
        elif message.say == "event":
            self.keep(message.values["id"], message.values["lines"])

    def close(self) -> None:
        """Closes the files."""
        for log in self._logs.values():
            with contextlib.suppress(OSError):
                log.close()


def compress(folder: Path) -> None:
    """Compresses the large logs of a job that is over; one that cannot be is left as it is."""
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
    """Compresses what was being compressed when a sweep was ended, in every folder of a run."""
    for folder in logs.glob("*/*/"):
        names = {path.name for path in folder.iterdir()}
        packed = {f"{name}.gz" for name in names} & names
        left = packed | {name for name in names if name.endswith(".part")}
        if left and RECORDED in names:
            with contextlib.suppress(OSError):
                for name in left:
                    (folder / name).unlink()
                compress(folder)


def files_of(folder: Path, name: str) -> list[Path]:
    """The files of a process's log, the older one first, whether they are compressed or not."""
    older, newer = folder / f"{name}.log.1", folder / f"{name}.log"
    packed = [(path, path.with_name(path.name + ".gz")) for path in (older, newer)]
    found = [next((one for one in pair if one.is_file()), None) for pair in packed]
    return [path for path in found if path is not None]


def lines_of(folder: Path, name: str) -> Iterator[str]:
    """What is kept of a process's log, oldest line first."""
    for path in files_of(folder, name):
        yield from worker_log.read_lines(path)
