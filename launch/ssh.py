"""SSH: programs of ours on other hosts, over Fabric, as a person's SSH is set up."""

import contextlib
import logging
import random
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any

from fabric import Config, Connection
from paramiko.ssh_exception import SSHException

from launch import ssh_config
from launch.errors import LaunchError
from launch.hosts import Host, Login
from launch.known_hosts import KnownHosts
from launch.sockets import BANNER_SECONDS, CONNECT_SECONDS, Limits, dial, dial_through
from launch.ssh_line import SshLine
from launch.transport import Line, here
from launch.unreachable import sentence

# sshd's MaxStartups drops connections at random from the tenth that has not logged in.
_TRIES = 5
_BANNER = "SSH protocol banner"
# A server that is full ends a connection at once; one that is stopped says nothing.
_DROPPED_SECONDS = 2.0
_SILENT_MS = 8000
# At once through a gateway, which waits as long as we do for a host that does not answer; and by
# ProxyCommand, each of which may log in to one gateway.
_THROUGH, _PROXIES, _PROXY = 256, 8, "ProxyCommand"
# For a shell's start-up files, and then for a Python, to begin; some homes are on slow disks.
_BEGIN_SECONDS, _END_SECONDS = 15.0, 1.0


class _Connection(Connection):  # type: ignore[misc] # Fabric has no types
    """Fabric's, which would otherwise keep this attribute in the configuration that all share."""

    inline_ssh_env = True


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to log in where ssh's own configuration does not say; `config` is a file in its place."""

    config: str = ""
    accept_new: bool = False


class Ssh:
    """Connections to hosts, each opened once, and to the gateways that several go through."""

    def __init__(self, settings: Settings) -> None:
        # What paramiko prints of errors is told in sentences.
        logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)
        self._ssh_config = ssh_config.read(settings.config)
        self._configs: dict[tuple[str, int | None], Config] = {}
        self._accept_new = settings.accept_new
        self._known_hosts = KnownHosts()
        self._limits = Limits()
        self._lock = threading.Lock()
        self._gates: dict[str, threading.Lock] = {}
        self._open: dict[str, Connection] = {}
        self._closings = 0

    def connection(self, login: Login, through: tuple[str, ...] = ()) -> Connection:
        """The open connection to a host; LaunchError in a sentence where there is none.

        `through` are the hosts that this one is a gateway of.
        """
        if login.host in through:
            raise LaunchError(
                f"ProxyJump leads in a circle: {' through '.join([*through, login.host])}; "
                f"write 'ProxyJump none' for {login.host}"
            )
        closings = self._closings
        with self._gate(str(login)):
            found = self._open.get(str(login))
            if found is not None and found.is_connected:
                return found
            made = self._made(login, through)
            self._limits.take()
            try:
                self._connect(made)
            except Exception as error:
                made.client.close()
                self._limits.give()
                raise LaunchError(f"{login.target}: {sentence(error, made)}") from error
            self._open[str(login)] = made
            if self._closings > closings:  # while it was made
                made.client.close()
                raise LaunchError(f"{login.target}: interrupted")
            return made

    def start(self, host: Host, modules: tuple[str, ...]) -> Line:
        """Starts a program of ours on a host; LaunchError where it cannot be reached."""
        if host.login is None:
            return here(host, modules)
        connection = self.connection(host.login)
        try:
            line = SshLine(connection, modules)
        except (SSHException, EOFError, OSError) as error:
            self._forget(host.login)
            raise LaunchError(f"{host.name}: {sentence(error, connection)}") from error
        if why := line.begin(_BEGIN_SECONDS):
            line.close(_END_SECONDS)
            raise LaunchError(f"{host.name}: {why}")
        return line

    def _forget(self, login: Login) -> None:
        """Closes a connection that is of no use, so that the next one is made anew."""
        with self._gate(str(login)):
            connection = self._open.pop(str(login), None)
        if connection is not None:
            connection.client.close()
            self._limits.give()

    def close(self) -> None:
        """Closes every connection, those to gateways last; one that is being made closes itself."""
        self._closings += 1
        for connection in reversed(list(self._open.values())):
            with contextlib.suppress(Exception):
                connection.close()
        self._open.clear()

    def _gate(self, name: str) -> threading.Lock:
        with self._lock:
            return self._gates.setdefault(name, threading.Lock())

    def _config(self, user: str, port: int | None) -> Config:
        """Fabric's configuration for what is given beside a host's name."""
        with self._lock:
            if (user, port) not in self._configs:
                given = self._ssh_config.given(user, port)
                self._configs[user, port] = Config(ssh_config=given)
            return self._configs[user, port]

    def _made(self, login: Login, through: tuple[str, ...]) -> Connection:
        """A connection that is not open yet, through its gateway's, which is."""
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
                raise LaunchError(f"{login.target}: its gateway: {error}") from error
        made = _Connection(
            login.host,
            user=login.user or None,
            port=login.port,
            config=config,
            gateway=gateway,
            connect_timeout=CONNECT_SECONDS,
            connect_kwargs={"banner_timeout": BANNER_SECONDS, "auth_timeout": CONNECT_SECONDS},
        )
        self._known_hosts.check_keys(made, accept_new=self._accept_new)
        return made

    def _connect(self, made: Connection) -> None:
        gateway = made.gateway
        made.gateway = None  # the socket has come through it
        for attempt in range(_TRIES):
            began = time.monotonic()
            try:
                made.connect_kwargs["sock"] = self._socket(made, gateway)
                with self._limits.handshakes:
                    made.open()
            except (SSHException, EOFError, ConnectionResetError) as error:
                known = not isinstance(error, SSHException) or _BANNER in str(error)
                dropped = known and time.monotonic() - began < _DROPPED_SECONDS
                if attempt == _TRIES - 1 or not dropped:
                    raise
                made.client.close()
                time.sleep(random.uniform(0.1, 0.4) * 2**attempt)
            else:
                _impatient(made)
                return

    def _socket(self, made: Connection, gateway: Connection | str | None) -> Any:
        """What a connection is made over: a socket, a gateway's channel, a ProxyCommand."""
        if not gateway:
            return dial(made.host, made.port)
        if isinstance(gateway, str):
            with self._limits.through(_PROXY, _PROXIES):
                made.gateway = gateway
                proxy = _proxy(made)
                made.gateway = None
            return proxy
        with self._limits.through(str(gateway.original_host), _THROUGH):
            return dial_through(gateway.client.get_transport(), made.host, made.port)


def _proxy(made: Connection) -> Any:
    """The ProxyCommand of a connection, started; LaunchError without its words if it fails."""
    try:
        return made.open_gateway()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "its quotes do not match"
        raise LaunchError(f"its ProxyCommand cannot be started ({why})") from None


def _impatient(made: Connection) -> None:
    """Has a connection end when its other end is silent for eight seconds."""
    transport = made.client.get_transport()
    assert transport is not None
    transport.channel_timeout = CONNECT_SECONDS
    transport.set_keepalive(2)
    if isinstance(transport.sock, socket.socket):  # not through a gateway
        transport.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_MS)
