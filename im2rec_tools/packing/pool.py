"""Pool of processes; the error for a dead one names its task and step."""

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

from im2rec_tools.errors import DataError, error_line

_QUEUED = 2  # tasks per process: one in work, one waiting
_ENDING_SECONDS = 2.0
# Open files that the fork server and the first process need; with fewer, Python prints a
# traceback.
_FILES = 16


class Task(Protocol):
    """Work for one process; its answer has the same number."""

    @property
    def number(self) -> int:
        """Number of the task, unique in the pool."""

    def where(self, at: int) -> str:
        """Return the file or image of step `at`."""


@dataclass(kw_only=True)
class _Worker:
    process: ForkServerProcess
    connection: "Connection[Any, Any]"
    position: Any  # shared memory: number of the current task, and its step
    tasks: dict[int, Task] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The current file or image, for errors."""
        number, at = self.position[:]
        return f"on {self.tasks[number].where(at)}" if number in self.tasks else "between two tasks"


@dataclass(frozen=True, kw_only=True)
class _LoadFailure:
    """Answer of a process that cannot load its modules."""

    why: str


class Pool:
    """Processes that answer tasks with a module's `server`; a context manager."""

    def __init__(self, processes: int, module: str, *args: Any) -> None:
        # A fork is unsafe next to a progress bar's thread; the fork server loads the codecs once.
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
                error_line(
                    f"process {len(self._workers) + 1} of {processes}",
                    problem=f"cannot be started ({why})",
                    fix=(
                        "Free memory, space in the temporary folder, processes (ulimit -u) and "
                        "open files (ulimit -n), or set fewer --processes"
                    ),
                )
            ) from error

    def _start(self, *args: Any) -> _Worker:
        local, remote = self._context.Pipe()
        position = self._context.RawArray("q", [-1, -1])
        process = self._context.Process(target=_serve, args=(remote, position, *args), daemon=True)
        process.start()
        remote.close()
        return _Worker(process=process, connection=local, position=position)

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
        """Whether a process has fewer tasks than it may queue."""
        return any(len(worker.tasks) < _QUEUED for worker in self._workers)

    @property
    def positions(self) -> list[tuple[int, int]]:
        """Current task and step of each process."""
        return [(worker.position[0], worker.position[1]) for worker in self._workers]

    def give(self, task: Task) -> None:
        """Send a task to the process with the fewest tasks."""
        worker = min(self._workers, key=lambda one: len(one.tasks))
        worker.tasks[task.number] = task
        self._owners[task.number] = worker
        self._send(worker, task)

    def give_same(self, number: int, message: Any) -> None:
        """Send a message to the process that had this task."""
        self._send(self._owners.pop(number), message)

    def give_any(self, message: Any) -> None:
        """Send a message that is no task to the process with the fewest tasks."""
        self._send(min(self._workers, key=lambda one: len(one.tasks)), message)

    def _send(self, worker: _Worker, message: Any) -> None:
        try:
            worker.connection.send(message)
        except ConnectionError as error:
            raise self._death(worker) from error

    def answers(self, timeout_seconds: float) -> Iterator[Any]:
        """Yield the answers received; wait for one.

        Raises DataError if a process has died.
        """
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
                    error_line(
                        "process",
                        problem=f"cannot load the image codecs ({answer.why})",
                        fix="Free memory (ulimit -v), or rebuild the environment: make setup",
                    )
                )
            worker.tasks.pop(getattr(answer, "number", -1), None)
            yield answer

    def _death(self, worker: _Worker) -> DataError:
        worker.process.join(_ENDING_SECONDS)
        code = worker.process.exitcode
        how = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
        return DataError(
            error_line(
                "process",
                problem=f"died ({how}) {worker.where}; finished work is kept",
                fix="Run the command again to continue",
            )
        )


def _check_files() -> None:
    """Raise OSError if this process cannot open the files that it needs."""
    opened: list[int] = []
    try:
        while len(opened) < _FILES:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    finally:
        for one in opened:
            os.close(one)


def _start_server() -> None:
    """Start the fork server with SIGINT blocked; it would end with a traceback."""
    resource_tracker.ensure_running()  # unblocks SIGINT when it starts
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(connection: Any, position: Any, module: str, *args: Any) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Imported here, because only these processes need the codecs.
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
        return  # the parent has ended or closed the connection
