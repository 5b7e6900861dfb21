"""Commands that are killed, or get a full disk, before their Nth change of a tree.

A process that has imported everything (`python -m tests.support.programs.kills`) forks for each
command.
"""

import dataclasses
import errno
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from tests.support.paths import ROOT

KILL, FULL, BROKEN = "kill", "full", "broken"
FAULTS = (KILL, FULL, BROKEN)
_ERRORS = {FULL: errno.ENOSPC, BROKEN: errno.EIO}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Audit events that change a tree; a full disk still allows files to be removed.
_REMOVING = {"os.remove", "os.rmdir", "os.utime"}
_CHANGING = {"os.rename", "os.mkdir", "os.link", "os.symlink", "os.truncate", *_REMOVING}


@dataclass(frozen=True, kw_only=True)
class Try:
    """A command, its fault and the step before which it occurs; 0: no fault."""

    words: tuple[str, ...]
    tree: str
    fault: str = KILL
    step: int = 0


@dataclass(frozen=True, kw_only=True)
class Done:
    """Exit code (negative for a signal), output, and event and path of each step."""

    code: int
    printed: str
    steps: tuple[tuple[str, str], ...]


class Commands:
    """Runner of commands, each in a fork with all modules loaded."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def run(self, one: Try) -> Done:
        """Run a command to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(dataclasses.asdict(one)) + "\n")
        self._process.stdin.flush()
        data: dict[str, Any] = json.loads(self._process.stdout.readline())
        steps = tuple((event, path) for event, path in data.pop("steps"))
        return Done(steps=steps, **data)


@contextmanager
def commands(*modules: str) -> Iterator[Commands]:
    """Start a runner with these modules and the tasks loaded."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.programs.kills", *modules],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Commands(process)
        assert process.stdin is not None
        process.stdin.close()


def can_fail(step: tuple[str, str], fault: str) -> bool:
    """Return whether this fault can occur at such a step."""
    return fault == KILL or step[0] not in _REMOVING


def main() -> None:
    """Read tries as lines of JSON and print their outcomes."""
    for name in ("fabfile", *sys.argv[1:]):
        import_module(name)
    gc.freeze()  # otherwise each child copies all of it when it ends
    for line in sys.stdin:
        one = Try(**json.loads(line) | {"words": tuple(json.loads(line)["words"])})
        with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as steps:
            pid = os.fork()
            if not pid:
                _run(one, printed.fileno(), steps.fileno())
            _, status = os.waitpid(pid, 0)
            printed.seek(0)
            steps.seek(0)
            done = Done(
                code=os.waitstatus_to_exitcode(status),
                printed=printed.read().decode(errors="replace"),
                steps=tuple(json.loads(step) for step in steps),
            )
        print(json.dumps(dataclasses.asdict(done)), flush=True)


def _run(one: Try, printed: int, steps: int) -> NoReturn:
    """Run the command in the forked process."""
    from fabric.main import program  # noqa: PLC0415

    import tasks.report  # noqa: PLC0415

    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    tree = Path(one.tree)
    os.environ["TMPDIR"] = tempfile.tempdir = str(tree / "tmp")
    tasks.report.BASELINES = tree / "baselines"
    _watch(one, os.dup(steps))  # the original is closed before the last step
    program.run(["fab", *one.words])
    sys.exit()


def _watch(one: Try, steps: int) -> None:
    """Raise the fault before the step, and record each step."""
    count, fsync = 0, os.fsync

    def step(event: str, path: object) -> None:
        nonlocal count
        count += 1
        os.write(steps, f"{json.dumps([event, str(path)])}\n".encode())
        if count == one.step and one.fault == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        elif count == one.step:
            number = _ERRORS[one.fault]
            raise OSError(number, os.strerror(number), str(path))

    def heard(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = args
            if isinstance(path, str) and flags & _WRITING and path.startswith(one.tree):
                step(event, path)
        elif event in _CHANGING and not (event == "os.mkdir" and Path(args[0]).is_dir()):
            step(event, args[0])

    def flushed(descriptor: int) -> None:
        step("os.fsync", descriptor)
        fsync(descriptor)

    flush: Callable[[int], None] = flushed
    os.fsync = flush  # type: ignore[assignment]
    sys.addaudithook(heard)


if __name__ == "__main__":
    main()
