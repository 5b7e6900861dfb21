"""SSH: programs of ours on other hosts, over Fabric, as a person's SSH is set up."""

import contextlib
import random
import shlex
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from fabric import Config, Connection
from paramiko.channel import Channel
from paramiko.ssh_exception import SSHException

from launch.errors import LaunchError
from launch.hosts import Host, Login
from launch.known_hosts import check_keys
from launch.transport import LOADER, Line, here, sources
from launch.unreachable import sentence

CONNECT_SECONDS = 10.0
# sshd's MaxStartups drops connections at random from the tenth that has not logged in.
_AT_ONCE = 8
_TRIES = 5
_BANNER = "SSH protocol banner"
_REMOTE = (
    'for p in python3 python /usr/local/bin/python3; do p=$(command -v "$p") && '
    f'exec "$p" -u -c "{LOADER}"; done; echo "no python3 on the PATH" >&2; exit 127'
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to log in where ssh's own configuration does not say; `config` is a file in its place."""

    config: str = ""
    accept_new: bool = False


class Ssh:
    """Connections to hosts, each opened once, and to the gateways that several go through."""

    def __init__(self, settings: Settings) -> None:
        path = settings.config
        if path and not Path(path).is_file():
            raise LaunchError(f"--ssh-config {path}: no such file")
        try:
            self._config = Config(runtime_ssh_path=path or None)
        except Exception as error:
            raise LaunchError(f"{path or '~/.ssh/config'}: cannot be read: {error}") from error
        self._accept_new = settings.accept_new
        self._at_once = threading.Semaphore(_AT_ONCE)
        self._lock = threading.Lock()
        self._gates: dict[str, threading.Lock] = {}
        self._open: dict[str, Connection] = {}

    def connection(self, login: Login) -> Connection:
        """The open connection to a host; LaunchError in a sentence where there is none."""
        with self._gate(str(login)):
            found = self._open.get(str(login))
            if found is not None and found.is_connected:
                return found
            made = self._made(login)
            try:
                self._connect(made)
            except Exception as error:
                raise LaunchError(f"{login.target}: {sentence(error, made)}") from error
            self._open[str(login)] = made
            return made

    def start(self, host: Host, modules: tuple[str, ...]) -> Line:
        """Starts a program of ours on a host; LaunchError where it cannot be reached."""
        if host.login is None:
            return here(host, modules)
        connection = self.connection(host.login)
        try:
            return SshLine(connection, modules)
        except (SSHException, EOFError, OSError) as error:
            raise LaunchError(f"{host.name}: {sentence(error, connection)}") from error

    def reach(self, hosts: Iterable[Host]) -> dict[str, str]:
        """Opens connections side by side; why not, of each host that cannot be reached."""
        listed = [host for host in hosts if host.login is not None]
        with ThreadPoolExecutor(max(1, len(listed))) as pool:
            whys = pool.map(self._why_not, listed)
            return {host.name: why for host, why in zip(listed, whys, strict=True) if why}

    def _why_not(self, host: Host) -> str:
        assert host.login is not None
        try:
            self.connection(host.login)
        except LaunchError as error:
            return str(error)
        return ""

    def close(self) -> None:
        """Closes every connection, those to gateways last."""
        for connection in reversed(list(self._open.values())):
            with contextlib.suppress(Exception):
                connection.close()
        self._open.clear()

    def _gate(self, name: str) -> threading.Lock:
        with self._lock:
            return self._gates.setdefault(name, threading.Lock())

    def _made(self, login: Login) -> Connection:
        """A connection that is not open yet, through its gateway's, which is."""
        jump = self._config.base_ssh_config.lookup(login.host).get("proxyjump", "none")
        gateway: Connection | bool | None = None
        if jump.lower() != "none":
            *before, last = jump.split(",")
            gateway = self.connection(Login.read(last.strip(), jump=",".join(before)))
        elif login.jump:
            *before, last = login.jump.split(",")
            gateway = self.connection(Login.read(last.strip(), jump=",".join(before)))
        made = Connection(
            login.host,
            user=login.user or None,
            port=login.port,
            config=self._config.clone(),
            gateway=gateway,
            connect_timeout=CONNECT_SECONDS,
            connect_kwargs={"banner_timeout": CONNECT_SECONDS, "auth_timeout": CONNECT_SECONDS},
        )
        check_keys(made, accept_new=self._accept_new)
        return made

    def _connect(self, made: Connection) -> None:
        for attempt in range(_TRIES):
            try:
                with self._at_once:
                    made.open()
            except (SSHException, EOFError, ConnectionResetError) as error:
                dropped = not isinstance(error, SSHException) or _BANNER in str(error)
                if attempt == _TRIES - 1 or not dropped:
                    raise
                made.client.close()
                time.sleep(random.uniform(0.1, 0.4) * 2**attempt)
            else:
                transport = made.client.get_transport()
                assert transport is not None
                transport.set_keepalive(2)
                return


class SshLine:
    """A program on another host, over a channel of its connection."""

    def __init__(self, connection: Connection, modules: tuple[str, ...]) -> None:
        self._channel: Channel = connection.create_session()
        self._lock = threading.Lock()
        self._channel.exec_command("exec /bin/sh -c " + shlex.quote(_REMOTE))
        self.write(sources(modules))

    def write(self, data: bytes) -> None:
        """Sends bytes."""
        with self._lock, contextlib.suppress(OSError, EOFError, SSHException):
            self._channel.sendall(data)

    def lines(self) -> Iterator[bytes]:
        """What the program says."""
        rest = b""
        with contextlib.suppress(OSError):
            while piece := self._channel.recv(65536):
                *whole, rest = (rest + piece).split(b"\n")
                yield from whole
        if rest:
            yield rest

    def close(self, seconds: float) -> None:
        """Ends the program's stdin and waits so long for it to go."""
        with contextlib.suppress(OSError, EOFError, SSHException):
            self._channel.shutdown_write()
            self._channel.status_event.wait(seconds if self._channel.active else 0.0)
            self._channel.close()

    def last_words(self) -> str:
        """The last line it wrote to stderr."""
        with contextlib.suppress(OSError):
            if self._channel.recv_stderr_ready():
                text = self._channel.recv_stderr(65536).decode("utf-8", "replace").strip()
                return text.splitlines()[-1][:300] if text else ""
        return ""
