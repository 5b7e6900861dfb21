"""Connection to a program on a host.

Its source is sent over the connection itself.
"""

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
from typing import IO, Protocol

from launch.hosts import ROOT, Host
from launch.remote.code_hash import closure
from launch.remote.errors import ProtocolError

# The command that a host runs: one line without double quotes, for every shell.
LOADER = "exec(__import__('sys').stdin.buffer.raw.readline())"
# Isolated: PYTHONHOME or PYTHONPATH of a start-up file, or a json.py in the home, do not affect it.
# Without site: it needs no installed package, and the search takes time.
FLAGS = ("-I", "-S", "-u")
# Run by /bin/sh of a host. The mark comes after what start-up files and wrappers print.
_SHELL = (
    "printf '\\n%s\\n' '{mark}' || { echo 'its standard output is closed' >&2; exit 1; }; "
    # -V does not start the interpreter, which would take ten times as long.
    'for p in python3 python /usr/local/bin/python3; do p=$(command -v "$p") && '
    'v=$("$p" -V 2>/dev/null) && v=${v#Python 3.} && [ "${v%%[!0-9]*}" -ge 8 ] 2>/dev/null && '
    f'exec "$p" {" ".join(FLAGS)} -c "{LOADER}"; done; '
    'echo "no Python 3.8 or newer on the PATH{advice}: $PATH" >&2; exit 127'
)
# Reads length and sources from the connection: the host needs no installation. The mark follows all
# output of a shell's start-up files; it is reversed here, because such a file may print its input.
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
# Files that a login shell reads before it runs a program.
STARTUP = "~/.bashrc for bash, ~/.zshenv for zsh, or ~/.ssh/rc"
_PIECE_BYTES = 1 << 16


class Line(Protocol):
    """Open connection to the stdin and the stdout of a program on a host."""

    def write(self, data: bytes) -> None:
        """Send bytes; a closed connection ignores them."""

    def lines(self, most: int) -> Iterator[bytes]:
        """Yield the program's lines after its mark, until its end.

        ProtocolError for a line of more than `most` bytes.
        """

    def close(self, seconds: float) -> None:
        """Close the program's stdin and wait `seconds` for its end; then leave or kill it."""

    def last_words(self) -> str:
        """Return its last line on stderr, or why the connection was lost."""


# Function that starts a program of launch/remote, by its module name, on a host.
Starter = Callable[[Host, str], Line]


def new_mark() -> bytes:
    """Return a random first line by which a program is recognized."""
    return f"mxscale {secrets.token_hex(8)}".encode()


def shell_command(mark: bytes, advice: str) -> str:
    """Return the command by which a host's /bin/sh prints a mark and starts a loader.

    `advice` follows 'no Python on the PATH'.
    """
    return _SHELL.replace("{mark}", mark.decode()).replace("{advice}", advice)


@cache
def _modules(program: str) -> bytes:
    """Return the modules that a program imports, each after its own imports."""
    modules = closure(ROOT, (f"launch.remote.{program}",))
    return json.dumps([[name, module.text.decode()] for name, module in modules.items()]).encode()


def sources(program: str, mark: bytes = b"") -> bytes:
    """Return the input of a loader: a program of launch/remote with its imports."""
    data = _modules(program)
    return b"exec(%r)\n%d\n" % (_BOOT % mark[::-1].decode(), len(data)) + data


def split(pieces: Iterable[bytes], most: int) -> Iterator[bytes]:
    """Split pieces into complete lines.

    ProtocolError for one of more than `most` bytes.

    An incomplete last line is dropped.
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


class StdinPipe:
    """Standard input of a local process; threads may write and close it."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe, self._lock = pipe, threading.Lock()

    def write(self, data: bytes) -> None:
        """Send bytes; an ended process ignores them."""
        with self._lock, contextlib.suppress(BrokenPipeError, ValueError):
            self._pipe.write(data)
            self._pipe.flush()

    def close(self, seconds: float) -> None:
        """Close it, unless a blocked writer holds it for `seconds`."""
        if self._lock.acquire(timeout=seconds):
            with contextlib.suppress(BrokenPipeError):
                self._pipe.close()
            self._lock.release()


class LocalLine:
    """Connection to a program on this machine, over two pipes."""

    def __init__(self, program: str) -> None:
        # Its own session: Ctrl-C reaches the controller, which then closes the connection.
        self._program = subprocess.Popen(
            [sys.executable, *FLAGS, "-c", LOADER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._stdin, self._stdout = StdinPipe(self._program.stdin), self._program.stdout
        self._mark = new_mark()
        self.write(sources(program, self._mark))

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._stdin.write(data)

    def lines(self, most: int) -> Iterator[bytes]:
        """Yield the program's lines; read them to the end, which closes the pipe."""
        with self._stdout:
            lines = split(iter(lambda: os.read(self._stdout.fileno(), _PIECE_BYTES), b""), most)
            while next(lines, self._mark) != self._mark:
                pass
            yield from lines

    def close(self, seconds: float) -> None:
        """Close stdin and wait; kill a program that does not end."""
        self._program.send_signal(signal.SIGCONT)  # a suspended program cannot notice
        self._stdin.close(seconds)
        try:
            self._program.wait(seconds)
        except subprocess.TimeoutExpired:
            self._program.kill()
            self._program.wait()
            self._stdin.close(seconds)

    def last_words(self) -> str:
        """Return '': its stderr is this terminal."""
        return ""


def start_local(host: Host, program: str) -> Line:
    """Start a program on this machine, also for a simulated host."""
    return LocalLine(program)
