"""Transport: a program of ours on a host, its source sent over the line that it is reached by."""

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Protocol

from launch.hosts import ROOT, Host
from launch.remote.code_hash import closure
from launch.remote.errors import ProtocolError

# What a host is asked to run: one line without quotes of its own, whatever the shell there.
LOADER = "exec(__import__('sys').stdin.buffer.raw.readline())"
# Isolated: a start-up file's PYTHONHOME or PYTHONPATH, or a json.py in the home, is not for it.
# Without site: nothing that is installed there is needed, and looking for it takes time.
FLAGS = ("-I", "-S", "-u")
# Reads length and sources from the line itself: nothing has to be installed there. The mark comes
# after all that a shell's start-up files print; it is turned round here, for such a file may print
# its own input.
_BOOT = (
    "import json, os, sys, types; s = sys.stdin.buffer.raw; n = b''\n"
    "while not n.endswith(b'\\n'): n += s.read(1) or sys.exit(1)\n"
    "b = b''\n"
    "while len(b) < int(n): b += s.read(int(n) - len(b)) or sys.exit(1)\n"
    "os.write(1, b'\\n' + b'%s'[::-1] + b'\\n')\n"
    "for name, source in json.loads(b):\n"
    "    m = sys.modules[name] = types.ModuleType(name); m.__path__ = []\n"
    "    exec(compile(source, 'mxscale ' + name, 'exec'), m.__dict__)\n"
    "m.main()"
)
# What a login shell reads before it runs a program of ours.
STARTUP = "~/.bashrc for bash, ~/.zshenv for zsh, or ~/.ssh/rc"
_PIECE_BYTES = 1 << 16


class Line(Protocol):
    """An open line to a program on a host: its stdin and its stdout."""

    def write(self, data: bytes) -> None:
        """Sends bytes; a line that is gone takes them silently."""

    def lines(self, most: int) -> Iterator[bytes]:
        """What the program says after its mark, until it ends or the line is gone.

        ProtocolError for a line of more than so many bytes.
        """

    def close(self, seconds: float) -> None:
        """Closes the program's stdin and waits so long for it to go; then leaves or ends it."""

    def last_words(self) -> str:
        """What it last wrote to stderr, or why the line is gone."""


# Starts a program of launch/remote, by the name of its module, on a host.
Starter = Callable[[Host, str], Line]


def new_mark() -> bytes:
    """A line that a program of ours begins with, and nothing else prints."""
    return f"mxscale {secrets.token_hex(8)}".encode()


@cache
def _modules(program: str) -> bytes:
    """The modules of launch/remote that a program imports, each after those it imports itself."""
    modules = closure(ROOT, (f"launch.remote.{program}",))
    return json.dumps([[name, module.text.decode()] for name, module in modules.items()]).encode()


def sources(program: str, mark: bytes = b"") -> bytes:
    """What a started loader reads first: a program of launch/remote and what it imports."""
    data = _modules(program)
    return b"exec(%r)\n%d\n" % (_BOOT % mark[::-1].decode(), len(data)) + data


def split(pieces: Iterable[bytes], most: int) -> Iterator[bytes]:
    """The whole lines of what comes in pieces; ProtocolError for one of more than so many bytes.

    What follows the last line end was torn, as by a signal.
    """
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        *whole, rest = piece.split(b"\n")
        for line in whole:
            yield b"".join([*held, line]) if held else line
            held, size = [], 0
        size += len(rest)
        if size > most:
            raise ProtocolError(f"expected lines of at most {most >> 20} MiB, got a longer one")
        if rest:
            held.append(rest)


class LocalLine:
    """A program on this machine, over two pipes."""

    def __init__(self, program: str) -> None:
        # Its own session: Ctrl-C in the terminal reaches the master, which then closes the line.
        self._program = subprocess.Popen(
            [sys.executable, *FLAGS, "-c", LOADER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._stdin, self._stdout = self._program.stdin, self._program.stdout
        self._lock = threading.Lock()
        self._mark = new_mark()
        self.write(sources(program, self._mark))

    def write(self, data: bytes) -> None:
        """Sends bytes."""
        with self._lock, contextlib.suppress(BrokenPipeError, ValueError):
            self._stdin.write(data)
            self._stdin.flush()

    def lines(self, most: int) -> Iterator[bytes]:
        """What the program says; to be read to its end, which closes the pipe."""
        with self._stdout:
            lines = split(iter(lambda: os.read(self._stdout.fileno(), _PIECE_BYTES), b""), most)
            while next(lines, self._mark) != self._mark:
                pass
            yield from lines

    def close(self, seconds: float) -> None:
        """Closes stdin and waits; a program that does not go is killed."""
        self._program.send_signal(signal.SIGCONT)  # one that is held cannot notice
        self._close_stdin(seconds)
        try:
            self._program.wait(seconds)
        except subprocess.TimeoutExpired:
            self._program.kill()
            self._program.wait()
            self._close_stdin(seconds)

    def _close_stdin(self, seconds: float) -> None:
        # Who writes to a program that reads nothing has the lock until that program is killed.
        if self._lock.acquire(timeout=seconds):
            with contextlib.suppress(BrokenPipeError):
                self._stdin.close()
            self._lock.release()

    def last_words(self) -> str:
        """Nothing: its stderr is this terminal's."""
        return ""


def start_local(host: Host, program: str) -> Line:
    """Starts a program on this machine, whatever host it plays."""
    return LocalLine(program)
