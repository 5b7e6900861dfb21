"""Transport: a program of ours on a host, its source sent over the line that it is reached by."""

import contextlib
import json
import re
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from launch.hosts import Host

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
_HERE = Path(__file__).parent
# What a terminal takes for a command: CSI, OSC and the short ones.
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b[\]PX^_]|\x9d)[^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -~]?"
)


class Line(Protocol):
    """An open line to a program on a host: its stdin and its stdout."""

    def write(self, data: bytes) -> None:
        """Sends bytes; a line that is gone takes them silently."""

    def lines(self) -> Iterator[bytes]:
        """What the program says after its mark, until it ends or the line is gone."""

    def close(self, seconds: float) -> None:
        """Closes the program's stdin and waits so long for it to go; then leaves or ends it."""

    def last_words(self) -> str:
        """What it last wrote to stderr, or why the line is gone."""


# Starts the modules of this package, the last one's `main`, on a host.
Start = Callable[[Host, tuple[str, ...]], Line]


def new_mark() -> bytes:
    """A line that a program of ours begins with, and nothing else prints."""
    return f"mxscale {secrets.token_hex(8)}".encode()


def sources(modules: tuple[str, ...], mark: bytes = b"") -> bytes:
    """What a started loader reads first: the modules of this package, the one to run last."""
    named = [["launch", ""]]
    for name in modules:
        named.append([f"launch.{name}", (_HERE / f"{name}.py").read_text(encoding="utf-8")])
    data = json.dumps(named).encode()
    return b"exec(%r)\n%d\n" % (_BOOT % mark[::-1].decode(), len(data)) + data


def _after(mark: bytes, lines: Iterable[bytes]) -> Iterator[bytes]:
    rest = iter(lines)
    for line in rest:
        if line.rstrip(b"\n") == mark:
            break
    yield from rest


class LocalLine:
    """A program on this machine, over two pipes."""

    def __init__(self, modules: tuple[str, ...]) -> None:
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
        self.write(sources(modules, self._mark))

    def write(self, data: bytes) -> None:
        """Sends bytes."""
        with self._lock, contextlib.suppress(BrokenPipeError, ValueError):
            self._stdin.write(data)
            self._stdin.flush()

    def lines(self) -> Iterator[bytes]:
        """What the program says; to be read to its end, which closes the pipe."""
        with self._stdout:
            yield from _after(self._mark, self._stdout)

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


def here(host: Host, modules: tuple[str, ...]) -> Line:
    """Starts a program on this machine, whatever host it plays."""
    return LocalLine(modules)


def said(line: bytes) -> dict[str, Any] | None:
    """The message on a line; None for what a host prints beside messages."""
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) and isinstance(values.get("say"), str) else None


def clean(value: Any) -> Any:
    """What a host said, its texts without what a terminal would take for a command."""
    if isinstance(value, str):
        if value.isprintable():
            return value
        return "".join(c if c.isprintable() else " " for c in _ESCAPE.sub("", value))
    if isinstance(value, list):
        return [clean(one) for one in value]
    if isinstance(value, dict):
        return {clean(name): clean(one) for name, one in value.items()}
    return value
