"""Pool of worker processes; one that dies is named with its task and step."""

import importlib
import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from typing import Any, Protocol

from im2rec_tools.errors import DataError

_QUEUED = 2  # tasks a process has: one in work, one to go on with
_ENDING_SECONDS = 2.0
# Files that the fork server and the first process need open; with fewer, Python prints a traceback.
_FILES = 16


class Task(Protocol):
    """Work for one process; its answer has the same number."""

    @property
    def number(self) -> int:
        """Of all tasks, its own."""

    def where(self, at: int) -> str:
        """What it is on at its `at`-th step."""


@dataclass(kw_only=True)
class _Worker:
    process: ForkServerProcess
    connection: "Connection[Any, Any]"
    position: Any  # shared: number of the task it is on and the step of it
    tasks: dict[int, Task] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """What it is on."""
        number, at = self.position[:]
        return f"on {self.tasks[number].where(at)}" if number in self.tasks else "between two tasks"


@dataclass(frozen=True, kw_only=True)
class _LoadFailure:
    """The answer of a process that cannot load what it works with."""

    why: str


class Pool:
    """Processes that answer by `server` of a module; as a context it ends them."""

    def __init__(self, processes: int, module: str, *args: Any) -> None:
        # A progress bar's thread forbids a plain fork; the server loads the codecs once for all.
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([module])
        self._workers: list[_Worker] = []
        self._owners: dict[int, _Worker] = {}
        try:
            _check_files()
            _start_server()
            for _ in range(processes):
                self._workers.append(self._start(module, *args))
        except (OSError, EOFError, RuntimeError) as error:
            self.__exit__(type(error), error, None)
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise DataError(
                f"process {len(self._workers) + 1} of {processes} cannot be started ({why}). Free "
                f"memory, space in the temporary folder, processes (ulimit -u) and open files "
                f"(ulimit -n), or ask for fewer"
            ) from error

    def _start(self, *args: Any) -> _Worker:
        ours, theirs = self._context.Pipe()
        position = self._context.RawArray("q", [-1, -1])
        process = self._context.Process(target=_serve, args=(theirs, position, *args), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process=process, connection=ours, position=position)

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        for worker in self._workers:
            worker.connection.close()
        for worker in self._workers:
            worker.process.join(_ENDING_SECONDS if error is None else 0)
            if worker.process.exitcode is None:
                worker.process.kill()
                worker.process.join()

    @property
    def has_room(self) -> bool:
        """Whether some process would otherwise have nothing to go on with."""
        return any(len(worker.tasks) < _QUEUED for worker in self._workers)

    @property
    def positions(self) -> list[tuple[int, int]]:
        """Task and step that each process is on."""
        return [(worker.position[0], worker.position[1]) for worker in self._workers]

    def give(self, task: Task) -> None:
        """Gives a task to the process that has least to do."""
        worker = min(self._workers, key=lambda one: len(one.tasks))
        worker.tasks[task.number] = task
        self._owners[task.number] = worker
        self._send(worker, task)

    def give_same(self, number: int, message: Any) -> None:
        """Gives something to the process that had the task of this number."""
        self._send(self._owners.pop(number), message)

    def give_any(self, message: Any) -> None:
        """Gives something that is no task to the process that has least to do."""
        self._send(min(self._workers, key=lambda one: len(one.tasks)), message)

    def _send(self, worker: _Worker, message: Any) -> None:
        try:
            worker.connection.send(message)
        except ConnectionError as error:
            raise self._death(worker) from error

    def answers(self, timeout_seconds: float) -> Iterator[Any]:
        """The answers that have come; waits for one. DataError where a process has died."""
        by_connection = {worker.connection: worker for worker in self._workers}
        ready: Sequence[Any] = wait(list(by_connection), timeout_seconds)
        for connection in ready:
            worker = by_connection[connection]
            try:
                answer = connection.recv()
            except (EOFError, ConnectionError) as error:
                raise self._death(worker) from error
            if isinstance(answer, _LoadFailure):
                raise DataError(
                    f"a process cannot load its codecs ({answer.why}). Free memory (ulimit -v), or "
                    f"make the environment again"
                )
            worker.tasks.pop(getattr(answer, "number", -1), None)
            yield answer

    def _death(self, worker: _Worker) -> DataError:
        worker.process.join(_ENDING_SECONDS)
        code = worker.process.exitcode
        how = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
        return DataError(
            f"a process has died ({how}) {worker.where}; what is whole is kept, run it again to "
            f"go on"
        )


def _check_files() -> None:
    """Raises OSError if this process may not open as many files as it starts with."""
    opened: list[int] = []
    try:
        while len(opened) < _FILES:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    finally:
        for one in opened:
            os.close(one)


def _start_server() -> None:
    """Starts the fork server without SIGINT, which ended it with a traceback while it loaded."""
    resource_tracker.ensure_running()  # which lets SIGINT through when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Any, position: Any, module: str, *args: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Not with the imports: a module's codecs are for these processes only.
    try:
        answer = importlib.import_module(module).server(position, *args)
    except (ImportError, OSError, MemoryError) as error:
        why = str(error).partition("\n")[0] or type(error).__name__
        failure = _LoadFailure(why=why)

        def answer(_message: Any) -> _LoadFailure:
            return failure

    try:
        while True:
            connection.send(answer(connection.recv()))
    except (EOFError, ConnectionError):
        return  # the process that this one works for has ended, or has closed the connection
