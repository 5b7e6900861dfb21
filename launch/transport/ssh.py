"""SSH: start of programs on other hosts, with the user's SSH configuration."""

import contextlib
import logging
import random
import shlex
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from fabric import Config, Connection
from paramiko.agent import AgentRequestHandler
from paramiko.buffered_pipe import BufferedPipe
from paramiko.channel import Channel
from paramiko.ssh_exception import SSHException

from launch.hosts import Host, Login
from launch.remote import limits
from launch.remote.errors import LaunchError, ProtocolError, error_line
from launch.transport import ssh_config
from launch.transport.host_keys import KnownHosts
from launch.transport.line import (
    STARTUP,
    Line,
    new_mark,
    shell_command,
    sources,
    split,
    start_local,
)
from launch.transport.protocol import clean
from launch.transport.sockets import SocketLimits, dial, dial_through
from launch.transport.ssh_errors import explain

_NOISE_BYTES = 1 << 20
# Twice paramiko's window, which it does not enforce.
_MOST_UNREAD = 4 << 20
_ADVICE = (
    f" of the login shell. Install one, or correct the PATH that a start-up file sets ({STARTUP})"
)
_STARTUP = f"a start-up file of the login shell ({STARTUP})"
_RETURN = "Let it return at once if the shell is not interactive"


def _session(connection: Connection) -> Channel:
    """Open a session; Fabric's create_session waits for a silent host for an hour."""
    transport = connection.client.get_transport()
    if transport is None:
        raise EOFError("the connection is closed")
    channel: Channel = transport.open_session(timeout=limits.CONNECT_SECONDS)
    if connection.forward_agent:
        AgentRequestHandler(channel)
    return channel


def limit_unread(pipe: BufferedPipe, flooded: Callable[[], None]) -> None:
    """Close a stream that holds more than a server may send before it is read."""
    feed = pipe.feed

    def bounded(data: bytes) -> None:
        if len(pipe) > _MOST_UNREAD:
            flooded()
            pipe.close()
        else:
            feed(data)

    pipe.feed = bounded


class SshLine:
    """Connection to a program on another host, over an SSH channel."""

    def __init__(self, connection: Connection, program: str) -> None:
        self._connection = connection
        self._channel = _session(connection)
        self._lock = threading.Lock()
        self._received = b""
        self._closed = self._flooded = False
        for pipe in (self._channel.in_buffer, self._channel.in_stderr_buffer):
            limit_unread(pipe, self._flood)
        self._shell, self._program = new_mark(), new_mark()
        remote = shell_command(self._shell, _ADVICE)
        # Run by any login shell.
        self._channel.exec_command("exec /bin/sh -c " + shlex.quote(remote))
        self.write(sources(program, self._program))

    def begin(self, seconds: float) -> str:
        """Wait until the program has started.

        Return the reason if it has not within `seconds`.
        """
        deadline = time.monotonic() + seconds
        marks = [b"\n" + self._shell + b"\n", b"\n" + self._program + b"\n"]
        ended = False
        while marks and not ended and (left := deadline - time.monotonic()) > 0:
            before, mark, rest = self._received.partition(marks[0])
            if mark:
                self._received = b"\n" + rest
                marks.pop(0)
                continue
            self._received = before[-_NOISE_BYTES:]
            self._channel.settimeout(left)
            with contextlib.suppress(TimeoutError):
                piece = self._channel.recv(65536)
                self._received += piece
                ended = not piece
        self._channel.settimeout(None)
        return _not_begun(self, len(marks), seconds, ended=ended) if marks else ""

    def exit_code(self) -> int:
        """Return the exit code of an ended shell or program; -1 if not available."""
        self._channel.status_event.wait(limits.LINE_END_SECONDS)
        return int(self._channel.exit_status)

    def write(self, data: bytes) -> None:
        """Send bytes."""
        with self._lock, contextlib.suppress(OSError, EOFError, SSHException):
            if not self._closed:
                self._channel.sendall(data)

    def lines(self, most: int) -> Iterator[bytes]:
        """Yield the lines that the program sends."""
        yield from split(self._pieces(), most)
        if self._flooded:
            raise ProtocolError("expected no more data than SSH's window, got more")

    def _pieces(self) -> Iterator[bytes]:
        yield self._received
        self._received = b""
        with contextlib.suppress(OSError):
            while piece := self._channel.recv(65536):
                yield piece

    def _flood(self) -> None:
        self._flooded = True

    def printed(self) -> str:
        """Return the last line printed instead of the program's mark."""
        lines = self._received.decode("utf-8", "replace").strip().splitlines()
        return str(clean(lines[-1]))[:100] if lines else ""

    def close(self, seconds: float) -> None:
        """Close the program's stdin and wait `seconds` for its end.

        0: close the connection.
        """
        if not seconds:  # the host does not answer
            self._connection.client.close()
            return
        # Not during a write: sshd ends the whole connection if data follows the end of a channel.
        free = self._lock.acquire(timeout=seconds)
        self._closed = True
        with contextlib.suppress(OSError, EOFError, SSHException):
            self._channel.shutdown_write()
        if free:
            self._lock.release()
        with contextlib.suppress(OSError, EOFError, SSHException):
            self._channel.status_event.wait(seconds if self._channel.active else 0.0)
            self._channel.close()

    def last_words(self) -> str:
        """Return the last line it wrote to stderr."""
        with contextlib.suppress(OSError):
            if self._channel.recv_stderr_ready():
                text = self._channel.recv_stderr(65536).decode("utf-8", "replace").strip()
                return str(clean(text.splitlines()[-1]))[:300] if text else ""
        return ""


def _not_begun(line: SshLine, marks: int, seconds: float, *, ended: bool) -> str:
    """Return why a program did not start, by the number of missing marks."""
    if not ended:
        if marks == 1:
            return error_line(
                "",
                problem=f"Python did not start within {seconds:.0f} s",
                fix="Check whether the host is overloaded, or one of its file systems hangs",
            )
        return error_line(
            "",
            problem=(
                f"the login shell ran no command within {seconds:.0f} s; the likely cause is "
                f"{_STARTUP} that waits"
            ),
            fix=_RETURN,
        )
    code, printed = line.exit_code(), line.last_words() or line.printed()
    end = f"ended with exit code {code}" if code >= 0 else "was killed, or its connection closed,"
    if marks == 1 and (code or printed):
        problem = f"Python {end} before it started the program"
        return printed or error_line("", problem=problem, fix="Log in with ssh to see the cause")
    if marks == 1:
        problem = f"Python received no program; the likely cause is {_STARTUP} that reads its input"
        return error_line("", problem=problem, fix=_RETURN)
    return error_line(
        "",
        problem=(
            f"the login shell {end} before it ran a command"
            f"{f' (it printed {printed!r})' if printed else ''}; the likely cause is {_STARTUP} "
            f"that exits or closes its output"
        ),
        fix=_RETURN,
    )


# sshd's MaxStartups drops connections at random from the tenth without a login.
_TRIES = 5
_BANNER = "SSH protocol banner"
# Parallel connections through a gateway, which waits as long as this process for a silent host; and
# by ProxyCommand, each of which may log in to one gateway.
_THROUGH, _PROXIES = 256, 8


class _Connection(Connection):  # type: ignore[misc] # Fabric has no types
    """Fabric's connection, with this attribute outside the shared configuration."""

    inline_ssh_env = True


class Ssh:
    """Connections to hosts and gateways, each opened once.

    `config` is a file in place of ssh's own configuration; `accept_new` accepts unknown host keys.
    """

    def __init__(self, config: str = "", *, accept_new: bool = False) -> None:
        # mxscale reports paramiko's errors itself.
        logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)
        self._ssh_config = ssh_config.read(config)
        self._configs: dict[tuple[str, int | None], Config] = {}
        self._accept_new = accept_new
        self._known_hosts = KnownHosts()
        self._limits = SocketLimits()
        self._lock = threading.Lock()
        self._gates: dict[str, threading.Lock] = {}
        self._open: dict[str, Connection] = {}
        self._closings = 0

    def connection(self, login: Login, through: tuple[str, ...] = ()) -> Connection:
        """Return the open connection to a host; LaunchError if it cannot be opened.

        `through` are the hosts for which this one is a gateway.
        """
        if login.host in through:
            raise LaunchError(
                error_line(
                    login.host,
                    problem=f"ProxyJump forms a cycle: {' through '.join([*through, login.host])}",
                    fix=f"Set 'ProxyJump none' for {login.host} in your SSH configuration",
                )
            )
        closings = self._closings
        with self._gate(str(login)):
            found = self._open.get(str(login))
            if found is not None and found.is_connected:
                return found
            self._drop(login, found)
            made = self._made(login, through)
            self._limits.take()
            try:
                self._connect(made)
            except Exception as error:
                made.client.close()
                self._limits.give()
                problem = explain(error, made, login.target)
                raise LaunchError(error_line(login.target, problem=problem)) from error
            self._open[str(login)] = made
            if self._closings > closings:  # while it was made
                made.client.close()
                raise LaunchError(
                    error_line(
                        login.target, problem="interrupted", fix="Run the same command again"
                    )
                )
            return made

    def start(self, host: Host, program: str) -> Line:
        """Start one of mxscale's programs on a host; LaunchError if it cannot be reached."""
        if host.login is None:
            return start_local(host, program)
        earlier, closings = self._open.get(str(host.login)), self._closings
        connection = self.connection(host.login)
        try:
            line = SshLine(connection, program)
        except (SSHException, EOFError, OSError) as error:
            ended = not connection.is_connected
            self._forget(host.login, connection)
            if ended and connection is earlier and self._closings == closings:
                return self.start(host, program)  # the server had closed it
            problem = explain(error, connection)
            raise LaunchError(error_line(host.name, problem=problem)) from error
        if why := line.begin(limits.PROGRAM_START_SECONDS):
            line.close(limits.PROGRAM_END_SECONDS)
            raise LaunchError(error_line(host.name, problem=why))
        return line

    def _forget(self, login: Login, broken: Connection) -> None:
        """Close a broken connection, so that the next use opens a new one."""
        with self._gate(str(login)):
            self._drop(login, broken)

    def _drop(self, login: Login, broken: Connection | None) -> None:
        if self._open.get(str(login)) is not broken or broken is None:
            return  # it is replaced
        self._open.pop(str(login), None)
        broken.client.close()
        self._limits.give()

    def close(self) -> None:
        """Close every connection, gateways last; one that is being opened closes itself."""
        self._closings += 1
        for connection in reversed(list(self._open.values())):
            with contextlib.suppress(Exception):
                connection.close()
        self._open.clear()

    def _gate(self, name: str) -> threading.Lock:
        with self._lock:
            return self._gates.setdefault(name, threading.Lock())

    def _config(self, user: str, port: int | None) -> Config:
        """Return Fabric's configuration for a user and a port."""
        with self._lock:
            if (user, port) not in self._configs:
                given = self._ssh_config.given(user, port)
                self._configs[user, port] = Config(ssh_config=given)
            return self._configs[user, port]

    def _made(self, login: Login, through: tuple[str, ...]) -> Connection:
        """Return an unopened connection, through its opened gateway if it has one."""
        # As ssh, which goes to the last of several gateways by -J, through those before it.
        config = self._config(login.user, login.port)
        jump = login.jump or config.base_ssh_config.lookup(login.host).get("proxyjump", "")
        gateway: Connection | None = None
        if jump:
            *before, last = jump.split(",")
            asked = Login.read(last.strip(), jump=",".join(before))
            try:
                gateway = self.connection(asked, (*through, login.host))
            except LaunchError as error:
                problem = f"gateway {error}"
                raise LaunchError(error_line(login.target, problem=problem)) from error
        made = _Connection(
            login.host,
            user=login.user or None,
            port=login.port,
            config=config,
            gateway=gateway,
            connect_timeout=limits.CONNECT_SECONDS,
            connect_kwargs={
                "banner_timeout": limits.BANNER_SECONDS,
                "auth_timeout": limits.CONNECT_SECONDS,
            },
        )
        self._known_hosts.check_keys(made, accept_new=self._accept_new)
        return made

    def _connect(self, made: Connection) -> None:
        gateway = made.gateway
        made.gateway = None  # the socket already goes through it
        for attempt in range(_TRIES):
            began = time.monotonic()
            try:
                made.connect_kwargs["sock"] = self._socket(made, gateway)
                with self._limits.handshakes:
                    made.open()
            except (SSHException, EOFError, ConnectionResetError) as error:
                known = not isinstance(error, SSHException) or _BANNER in str(error)
                dropped = known and time.monotonic() - began < limits.DROP_SECONDS
                if attempt == _TRIES - 1 or not dropped:
                    raise
                made.client.close()
                time.sleep(random.uniform(0.1, 0.4) * 2**attempt)
            else:
                _limit_silence(made)
                return

    def _socket(self, made: Connection, gateway: Connection | str | None) -> Any:
        """Return a socket, a gateway's channel or a ProxyCommand for a connection."""
        if not gateway:
            return dial(made.host, made.port)
        if isinstance(gateway, str):
            with self._limits.through("ProxyCommand", _PROXIES):
                made.gateway = gateway
                try:
                    return made.open_gateway()
                except (OSError, ValueError) as error:  # without the command, which may be secret
                    why = getattr(error, "strerror", None) or "its quotes do not match"
                    problem = f"cannot be started ({why})"
                    fix = f"Run 'ssh {made.host}' to see the cause"
                    line = error_line("ProxyCommand", problem=problem, fix=fix)
                    raise LaunchError(line) from None
                finally:
                    made.gateway = None
        with self._limits.through(str(gateway.original_host), _THROUGH):
            return dial_through(gateway.client.get_transport(), made.host, made.port)


def _limit_silence(made: Connection) -> None:
    """Make a connection end when its other end is silent."""
    transport = made.client.get_transport()
    assert transport is not None
    transport.channel_timeout = limits.CONNECT_SECONDS
    transport.set_keepalive(limits.KEEPALIVE_SECONDS)
    if isinstance(transport.sock, socket.socket):  # not through a gateway
        milliseconds = 1000 * limits.SSH_SILENCE_SECONDS
        transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
