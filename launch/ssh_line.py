"""SSH line: a program of ours on another host, over a channel of its connection."""

import contextlib
import shlex
import threading
import time
from collections.abc import Iterator

from fabric import Connection
from paramiko.agent import AgentRequestHandler
from paramiko.buffered_pipe import BufferedPipe
from paramiko.channel import Channel
from paramiko.ssh_exception import SSHException

from launch.errors import ProtocolError
from launch.protocol import clean
from launch.sockets import CONNECT_SECONDS
from launch.transport import FLAGS, LOADER, STARTUP, new_mark, sources, split

_END_SECONDS = 1.0
_NOISE_BYTES = 1 << 20
# Twice paramiko's window, which it does not enforce.
_MOST_UNREAD = 4 << 20
# Run by the login shell, whatever it is. The first mark comes once its start-up files are done.
_REMOTE = (
    "printf '\\n%s\\n' '{mark}' || { echo 'its standard output is closed' >&2; exit 1; }; "
    # To print its version a Python does not have to begin, which would take ten times as long.
    'for p in python3 python /usr/local/bin/python3; do p=$(command -v "$p") && '
    'v=$("$p" -V 2>/dev/null) && v=${v#Python 3.} && [ "${v%%[!0-9]*}" -ge 8 ] 2>/dev/null && '
    f'exec "$p" {" ".join(FLAGS)} -c "{LOADER}"; done; '
    'echo "there is no Python 3.8 or newer on its PATH; install one, or correct the PATH that a '
    'start-up file sets ({startup}): $PATH" >&2; exit 127'
).replace("{startup}", STARTUP)
_STARTUP = f"a start-up file of its login shell ({STARTUP})"


def _session(connection: Connection) -> Channel:
    """As Fabric's create_session, which waits for a silent host for an hour."""
    transport = connection.client.get_transport()
    if transport is None:
        raise EOFError("the connection is closed")
    channel: Channel = transport.open_session(timeout=CONNECT_SECONDS)
    if connection.forward_agent:
        AgentRequestHandler(channel)
    return channel


class SshLine:
    """A program on another host, over a channel of its connection."""

    def __init__(self, connection: Connection, modules: tuple[str, ...]) -> None:
        self._connection = connection
        self._channel = _session(connection)
        self._lock = threading.Lock()
        self._heard = b""
        self._flooded = False
        for pipe in (self._channel.in_buffer, self._channel.in_stderr_buffer):
            self._bound(pipe)
        self._shell, self._program = new_mark(), new_mark()
        remote = _REMOTE.replace("{mark}", self._shell.decode())
        self._channel.exec_command("exec /bin/sh -c " + shlex.quote(remote))
        self.write(sources(modules, self._program))

    def begin(self, seconds: float) -> str:
        """Waits until the program has begun; why it does not, if it does not within the seconds."""
        deadline = time.monotonic() + seconds
        marks = [b"\n" + self._shell + b"\n", b"\n" + self._program + b"\n"]
        ended = False
        while marks and not ended and (left := deadline - time.monotonic()) > 0:
            before, mark, rest = self._heard.partition(marks[0])
            if mark:
                self._heard = b"\n" + rest
                marks.pop(0)
                continue
            self._heard = before[-_NOISE_BYTES:]
            self._channel.settimeout(left)
            with contextlib.suppress(TimeoutError):
                piece = self._channel.recv(65536)
                self._heard += piece
                ended = not piece
        self._channel.settimeout(None)
        return _not_begun(self, len(marks), seconds, ended=ended) if marks else ""

    def exit_code(self) -> int:
        """Of a shell or program that has ended; -1 if that is not known."""
        self._channel.status_event.wait(_END_SECONDS)
        return int(self._channel.exit_status)

    def write(self, data: bytes) -> None:
        """Sends bytes."""
        with self._lock, contextlib.suppress(OSError, EOFError, SSHException):
            self._channel.sendall(data)

    def lines(self, most: int) -> Iterator[bytes]:
        """What the program says."""
        yield from split(self._pieces(), most)
        if self._flooded:
            raise ProtocolError("it sent more than SSH's window lets it")

    def _pieces(self) -> Iterator[bytes]:
        heard, self._heard = self._heard, b""
        yield heard
        with contextlib.suppress(OSError):
            while piece := self._channel.recv(65536):
                yield piece

    def _bound(self, pipe: BufferedPipe) -> None:
        """Closes a stream that holds more than a server may send before any of it is read."""
        feed = pipe.feed

        def bounded(data: bytes) -> None:
            if len(pipe) > _MOST_UNREAD:
                self._flooded = True
                pipe.close()
            else:
                feed(data)

        pipe.feed = bounded

    def printed(self) -> str:
        """The last line of what came in place of the program."""
        lines = self._heard.decode("utf-8", "replace").strip().splitlines()
        return str(clean(lines[-1]))[:100] if lines else ""

    def close(self, seconds: float) -> None:
        """Ends the program's stdin and waits so long for it to go; 0: ends the connection."""
        if not seconds:  # nobody is there
            self._connection.client.close()
            return
        with contextlib.suppress(OSError, EOFError, SSHException):
            self._channel.shutdown_write()
            self._channel.status_event.wait(seconds if self._channel.active else 0.0)
            self._channel.close()

    def last_words(self) -> str:
        """The last line it wrote to stderr."""
        with contextlib.suppress(OSError):
            if self._channel.recv_stderr_ready():
                text = self._channel.recv_stderr(65536).decode("utf-8", "replace").strip()
                return str(clean(text.splitlines()[-1]))[:300] if text else ""
        return ""


def _not_begun(line: SshLine, marks: int, seconds: float, *, ended: bool) -> str:
    """Why a program did not begin, by how many of its two marks are missing."""
    if not ended:
        if marks == 1:
            return (
                f"its Python did not start within {seconds:.0f} s; is the host overloaded, or a "
                f"file system of it stuck?"
            )
        return (
            f"its login shell ran nothing within {seconds:.0f} s; the likely cause is {_STARTUP} "
            f"that waits: let it return at once if the shell is not interactive"
        )
    code, said = line.exit_code(), line.last_words() or line.printed()
    how = f"ended with exit code {code}" if code >= 0 else "was killed, or its connection closed,"
    if marks == 1 and (code or said):
        return said or f"its Python {how} before it began"
    if marks == 1:
        return f"its Python read no program; the likely cause is {_STARTUP} that reads its input"
    return (
        f"its login shell {how} before it ran anything"
        f"{f' (it printed {said!r})' if said else ''}; the likely cause is {_STARTUP} that exits "
        f"or closes its output: let it return at once if the shell is not interactive"
    )
