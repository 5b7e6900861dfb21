"""Programs on hosts through a command of the user, such as srun or docker exec."""

import contextlib
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench.errors import quoted
from launch.hosts import Host
from launch.remote import limits
from launch.remote.errors import LaunchError, error_line
from launch.transport.client import map_hosts
from launch.transport.line import Line, StdinPipe, new_mark, shell_command, sources, split
from launch.transport.protocol import clean

_OPTION = "--via"
_HOST = "{host}"
_PLACEHOLDER = re.compile(r"\{[A-Za-z0-9_]*\}")
_EXAMPLE = "--via 'docker exec -i {host}'"
# The shell that the command starts. A launcher such as srun copies the controller's variables, and
# this one names the address of another machine.
_SHELL = "unset SSH_CONNECTION; "
_PIECE_BYTES = 1 << 16
_KEPT_BYTES = 1 << 12
_POLL_SECONDS = 0.01


@dataclass(frozen=True, kw_only=True)
class Template:
    """Command that carries stdin and stdout to a host, with its name for {host}."""

    words: tuple[str, ...]

    @staticmethod
    def parse(text: str) -> "Template":
        """Split a text as a shell does, without expanding anything.

        Raises LaunchError for a wrong template, or a program that this machine does not have.
        """
        try:
            words = tuple(shlex.split(text))
        except ValueError as error:
            problem = f"its quotes do not match ({error})"
            raise LaunchError(error_line(_OPTION, problem=problem, fix=_quoting())) from None
        given = _PLACEHOLDER.findall(" ".join(words))
        if other := next((one for one in given if one != _HOST), ""):
            raise LaunchError(
                error_line(
                    _OPTION,
                    expected="only the placeholder {host}",
                    got=other,
                    fix=f"Remove {other}",
                )
            )
        if not any(_HOST in word for word in words):
            got = quoted(text) if text.strip() else "none"
            fix = f"Write it where the command names the host, as in: {_EXAMPLE}"
            raise LaunchError(
                error_line(_OPTION, expected="a command with {host}", got=got, fix=fix)
            )
        _check_program(words[0])
        return Template(words=words)

    def command(self, host: str) -> tuple[str, ...]:
        """Return the words of the command for a host."""
        return tuple(word.replace(_HOST, host) for word in self.words)


def _quoting() -> str:
    return f"Quote the whole template once, as in: {_EXAMPLE}"


def _check_program(name: str) -> None:
    if _HOST in name:
        got, fix = quoted(name), f"Begin with the program, as in: {_EXAMPLE}"
        raise LaunchError(error_line(_OPTION, expected="a program before {host}", got=got, fix=fix))
    if shutil.which(name) is None:
        raise LaunchError(
            error_line(
                _OPTION,
                expected="a program of this machine",
                got=quoted(name),
                fix="Install it, or give its path",
            )
        )


class ViaLine:
    """Connection to a program on a host, over the pipes of a local command.

    The command has a process group of its own, which ends with the connection.
    """

    def __init__(self, command: tuple[str, ...], program: str) -> None:
        self._command = command
        self._shell, self._mark = new_mark(), new_mark()
        script = _SHELL + shell_command(self._shell, ". Install one there")
        # Its own session: Ctrl-C reaches the controller, which then closes the connection.
        self._process = subprocess.Popen(
            [*command, "/bin/sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = StdinPipe(self._process.stdin), self._process.stdout
        self._begun = False
        self._received, self._errors = b"", b""
        self._closing, self.closed = threading.Lock(), False
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()
        # By a thread, because a command that reads nothing blocks the writer.
        text = sources(program, self._mark)
        threading.Thread(target=self._stdin.write, args=(text,), daemon=True).start()

    def begin(self, seconds: float) -> str:
        """Wait until the program has started.

        If it has not within `seconds`, close the connection and return the reason.
        """
        deadline = time.monotonic() + seconds
        marks = [b"\n" + self._shell + b"\n", b"\n" + self._mark + b"\n"]
        ended = False
        while marks and not ended and (left := deadline - time.monotonic()) > 0:
            before, mark, rest = self._received.partition(marks[0])
            if mark:
                self._received = b"\n" + rest
                marks.pop(0)
            elif self._readable(left):
                piece = os.read(self._stdout.fileno(), _PIECE_BYTES)
                self._received = before[-_PIECE_BYTES:] + piece
                ended = not piece
        self._begun = not marks
        if not marks:
            return ""
        why = self._not_begun(len(marks), seconds, ended=ended)
        self.close(0.0)
        self._stdout.close()
        return why

    def _readable(self, seconds: float) -> bool:
        """Wait for output or its end. select() takes no descriptors from 1024 on."""
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def _not_begun(self, marks: int, seconds: float, *, ended: bool) -> str:
        """Return why the program did not start, by the number of missing marks."""
        name = quoted(self._command[0])
        if ended:
            self._reader.join(limits.LINE_END_SECONDS)
        fix = f"To see the cause, run: {shlex.join(self._command)} true"
        if not ended or not self._ended(limits.LINE_END_SECONDS):
            missing = "Python" if marks == 1 else "a shell on the host"
            problem = f"{name} did not start {missing} within {seconds:.0f} s"
        elif marks == 1 and self._status() == 0:
            problem = f"{name} did not pass the standard input to the host"
            fix = "docker exec and kubectl exec need the option -i"
        else:
            code = self._status()
            how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
            where = "Python" if marks == 1 else "a shell"
            problem = f"{name} ended with {how} before {where} started on the host"
        said = self._said(2) or self._printed()
        return error_line("", problem=f"{problem}: {said}" if said else problem, fix=fix)

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._stdin.write(data)

    def lines(self, most: int) -> Iterator[bytes]:
        """Yield the lines that the program sends."""
        yield from split(self._pieces(), most)

    def _pieces(self) -> Iterator[bytes]:
        yield self._received.removeprefix(b"\n")
        self._received = b""
        with self._stdout:
            while piece := os.read(self._stdout.fileno(), _PIECE_BYTES):
                yield piece

    def close(self, seconds: float) -> None:
        """Close the command's stdin, wait `seconds` for its end, and end its group.

        0: as long as an agent needs to end its processes, if one was started.
        """
        with self._closing:
            if self.closed:
                return
            self.closed = True
            patience = (seconds or limits.STOP_SECONDS) if self._begun else 0.0
            self._signal(signal.SIGCONT)  # a suspended program cannot notice
            self._stdin.close(patience)
            if not self._ended(patience):
                self._signal(signal.SIGTERM)
                self._ended(limits.GRACE_SECONDS)
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._stdin.close(limits.PROGRAM_END_SECONDS)

    def last_words(self) -> str:
        """Return the last line of the command's stderr."""
        self._reader.join(limits.LINE_END_SECONDS)
        return self._said(1)

    def _ended(self, seconds: float) -> bool:
        """Wait for the end of the command without reaping it: its group keeps its number."""
        deadline = time.monotonic() + seconds
        options = os.WEXITED | os.WNOWAIT | os.WNOHANG
        with contextlib.suppress(ChildProcessError):  # closed by another thread
            while os.waitid(os.P_PID, self._process.pid, options) is None:
                if time.monotonic() >= deadline:
                    return False
                time.sleep(_POLL_SECONDS)
        return True

    def _status(self) -> int:
        """Return the exit code of the ended command, or the negative number of its signal."""
        try:
            found = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:  # closed by another thread
            return self._process.wait()
        assert found is not None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            while piece := os.read(stderr.fileno(), _PIECE_BYTES):
                self._errors = (self._errors + piece)[-_KEPT_BYTES:]

    def _said(self, lines: int) -> str:
        """Return the last lines of its stderr; launchers explain an exit code before it."""
        text = self._errors.decode("utf-8", "replace").strip()
        last = [one.strip() for one in text.splitlines() if one.strip()][-lines:]
        return str(clean("; ".join(last)))[:300]

    def _printed(self) -> str:
        """Return the last line that the command printed in place of a mark."""
        found = self._received.decode("utf-8", "replace").strip().splitlines()
        return f"it printed {quoted(clean(found[-1])[:100])}" if found else ""


class Via:
    """Connections to hosts by a template; `close` ends every command that is left."""

    def __init__(self, template: Template) -> None:
        self._template = template
        self._lock = threading.Lock()
        self._lines: list[ViaLine] = []
        self._closed = False

    def start(self, host: Host, program: str) -> Line:
        """Start one of mxscale's programs on a host; LaunchError if it does not start."""
        command = self._template.command(host.name)
        with self._lock:
            if self._closed:
                fix = "Run the same command again"
                raise LaunchError(error_line(host.name, problem="interrupted", fix=fix))
            try:
                line = ViaLine(command, program)
            except OSError as error:
                problem = f"{quoted(command[0])} cannot be started ({error.strerror})"
                fix = "Check the program of --via"
                raise LaunchError(error_line(host.name, problem=problem, fix=fix)) from error
            self._lines = [*(one for one in self._lines if not one.closed), line]
        if why := line.begin(limits.VIA_START_SECONDS):
            raise LaunchError(error_line(host.name, problem=why))
        return line

    def close(self) -> None:
        """End every command, also those that are starting."""
        with self._lock:
            self._closed = True
            left = list(self._lines)
        map_hosts(lambda line: line.close(0.0), left, len(left))
