"""The worker of engine `command`: run a program, report its windows.

    python -m bench.engines.command.runner '{"format": "tf-cnn", ...}' PROGRAM WORD ...

It passes the program's output on, which becomes the log of the worker.
"""

import errno
import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench.engines.command.children import Program, survive_parent
from bench.engines.command.program import PRINTED, filled, placed, program_name
from bench.errors import SpecError, error_line
from bench.events import REPORTED, say
from bench.logs.windows import PrintedJob, WindowReader
from bench.notes import as_json
from bench.statistics.budget import Budget, end_reason

# After its last window a program may end by itself; after its end, so may its processes.
_LAST_SECONDS, _ORPHAN_SECONDS, _TERM_SECONDS = 5.0, 2.0, 10.0
_UNLIMITED = 10**9
_MOST_NAMED = 3


class _OutputError(Exception):
    """Why the output is no measurement."""


class _Measurement:
    """State of a run: the reader of its output, and the seconds of its windows."""

    def __init__(self, settings: Mapping[str, Any], words: Sequence[str]) -> None:
        self.name = program_name(words)
        self._program = Program(words, _environment())
        self._format = settings["format"]
        job = {name: settings[name] for name in PrintedJob.__dataclass_fields__}
        self._reader = WindowReader(PRINTED[self._format], PrintedJob(**job))
        self._windows, self._warmup = settings["windows"], settings["warmup_windows"]
        self._budget = Budget(
            precision=settings["precision"],
            windows=self._windows - self._warmup if self._windows else _UNLIMITED,
            seconds=settings["budget_seconds"],
        )
        self._seconds: list[float] = []

    def run(self) -> str:
        """Return why measuring ended; _OutputError or SpecError if it is no measurement."""
        try:
            ended = self._follow()
            if ended == "windows":  # it may have printed its last line
                for text, _ in self._program.lines(time.monotonic() + _LAST_SECONDS):
                    _show(text)
            if self._program.code is not None:
                self._check_end()
        finally:
            self._program.end(_TERM_SECONDS)
        self._check(ended)
        return ended or "program"

    def _follow(self) -> str:
        """Report windows until there are enough, or until the program ends: ''."""
        for text, now in self._program.lines():
            _show(text)
            for window in self._reader.take(text, now):
                values = {
                    "index": len(self._seconds),
                    "seconds": window.seconds,
                    "end": time.time(),
                    "images": window.images,
                    "steps": window.steps,
                }
                say("window", values, rank=0)
                self._seconds.append(window.seconds)
                ended = end_reason(self._seconds, self._budget, self._warmup)
                if ended:
                    say("measured", rank=0)
                    return ended
        return ""

    def _check_end(self) -> None:
        """Raise _OutputError if the program failed, or left processes behind."""
        code = self._program.code or 0
        if code < 0:
            raise _OutputError(f"{self.name} was killed by {_signal(-code)}")
        if code > 0:
            raise _OutputError(f"{self.name} exited with code {code}")
        left = [f"{words} (PID {pid})" for pid, words in self._left().items()]
        if left:
            more = f" and {len(left) - _MOST_NAMED} more" if len(left) > _MOST_NAMED else ""
            names = ", ".join(left[:_MOST_NAMED])
            fix = "Let it wait for its processes; they were ended"
            problem = f"it exited and left processes behind: {names}{more}"
            raise _OutputError(error_line(self.name, problem=problem, fix=fix))

    def _left(self) -> Mapping[int, str]:
        return self._program.left_behind(_ORPHAN_SECONDS)

    def _check(self, ended: str) -> None:
        reader, done = self._reader, len(self._seconds)
        if not done:
            first = f", and line {reader.spoilt[0]} is not usable" if reader.spoilt else ""
            raise _OutputError(
                error_line(
                    self.name,
                    expected=f"lines with a throughput in format {self._format}, enough for a "
                    f"window",
                    got=f"none in {reader.lines} line{'s' * (reader.lines != 1)}{first}"
                    f"{', and it exited with code 0' * (self._program.code == 0)}",
                    fix="Check format and steps_per_window, and that the program prints it",
                )
            )
        if not ended and self._windows:
            raise _OutputError(
                error_line(
                    self.name,
                    expected=f"{self._windows} windows ({self._warmup} of them warm-up)",
                    got=f"{done} before it exited with code 0",
                    fix="Let it train longer, or lower windows; windows = 0 takes all",
                )
            )
        for problem in reader.contradictions():
            raise _OutputError(problem)

    def facts(self) -> dict[str, Any]:
        """Return the facts that the record keeps."""
        notes = [as_json(note) for note in self._reader.notes()]
        return {"rounding": self._reader.rounding} | ({"notes": notes} if notes else {})


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _show(text: str) -> None:
    # The program's variables may choose an encoding for Python's own text.
    sys.stdout.buffer.write(f"{text}\n".encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def _environment() -> dict[str, str]:
    """Return the environment of the program: without the parts of mxscale."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("MXSCALE_")}
    # The agent puts the checkout first, whose packages could hide those of the program. A point's
    # own `env` replaces that.
    first, *rest = env.pop("PYTHONPATH", "").split(os.pathsep)
    paths = rest if os.path.realpath(first) == os.getcwd() else [first, *rest]  # noqa: PTH109
    if any(paths):
        env["PYTHONPATH"] = os.pathsep.join(paths)
    # Programs buffer what they print to a pipe, so its lines would arrive too late.
    return env | {"PYTHONUNBUFFERED": "1"}


def main() -> None:
    """Run the program in the arguments; exit with 1 if it gives no measurement."""
    settings, words = json.loads(sys.argv[1]), sys.argv[2:]
    say("reached")
    survive_parent()
    try:
        words = filled(words, placed(settings, os.environ))
        found = _Measurement(settings, words)
        batch = settings["global_batch"]
        say("ready", {"num_workers": 1, "worker_batch": batch, REPORTED: True}, rank=0)
        ended = found.run()
        say("done", {"weight_hash": None, "ended": ended, **found.facts()}, rank=0)
    except (_OutputError, SpecError, OSError) as error:
        message = str(error)
        if isinstance(error, OSError):
            problem = f"cannot be started ({error.strerror})"
            fix = "Install it on this host, or give its path"
            if error.errno == errno.ENOENT and os.path.exists(words[0]):  # noqa: PTH110
                fix = "Install the interpreter that its first line names"
            if error.errno == errno.ENOEXEC:
                fix = "Begin the script with '#!' and its interpreter"
            message = error_line(words[0], problem=problem, fix=fix)
        say("failed", {"message": message}, rank=0)
        sys.exit(1)


if __name__ == "__main__":
    main()
