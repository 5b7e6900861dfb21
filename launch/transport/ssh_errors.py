"""Why a host cannot be reached, in a sentence with what to do."""

import errno
import re
import shlex
import socket
from collections.abc import Callable
from typing import Any

from fabric import Connection
from paramiko.ssh_exception import (
    AuthenticationException,
    BadHostKeyException,
    ChannelException,
    NoValidConnectionsError,
    PasswordRequiredException,
    ProxyCommandFailure,
    SSHException,
)

from launch.remote.errors import LaunchError
from launch.transport.host_keys import UnknownKeyError, files_of, known_as

_MUTE = re.compile("banner|No existing session")
_REFUSED = "refused the connection: is sshd running there, on this port?"
_NO_ANSWER = "did not answer within 10 s: is it up, and does a firewall let SSH through?"
_ERRNOS = {
    errno.ECONNREFUSED: _REFUSED,
    errno.EHOSTUNREACH: "cannot be reached: no such machine on this network, or it is down",
    errno.ENETUNREACH: "cannot be reached: this machine has no route to its network",
    errno.ETIMEDOUT: _NO_ANSWER,
    errno.ECONNRESET: "ended the connection at once: see its sshd's log",
    errno.EMFILE: "needs one more open file than this process may have: raise it with ulimit -n",
    errno.ENFILE: "needs one more open file than this machine may have (fs.file-max)",
}


def explain(error: BaseException, to: Connection) -> str:
    """What went wrong with a connection, where, and what to do."""
    where = f"{to.host} port {to.port}"
    for kind, told in _TOLD:
        if isinstance(error, kind):
            return told(error, to, where)
    return f"{where} {_of_network(error)}"


def _as_said(error: Any, to: Connection, where: str) -> str:
    return str(error)


def _unresolved(error: Any, to: Connection, where: str) -> str:
    return (
        f"the name {to.host} cannot be resolved; check its spelling, or give its address as "
        f"HostName in your SSH configuration"
    )


def _wrong_key(error: Any, to: Connection, where: str) -> str:
    known, got = error.expected_key, error.key
    return (
        f"its key differs from the known one (expected {known.get_name()} {known.fingerprint}, "
        f"got {got.get_name()} {got.fingerprint}); refused. If the host was set up anew, remove "
        f"the old key: ssh-keygen -R {shlex.quote(known_as(to))} -f {files_of(to)[0]}"
    )


def _no_session(error: Any, to: Connection, where: str) -> str:
    return f"refused to open a session ({error}); see MaxSessions of its sshd"


def _not_let_in(error: Any, to: Connection, where: str) -> str:
    if isinstance(error, PasswordRequiredException):
        return f"{where}: the key is locked by a passphrase; unlock it with ssh-add"
    return (
        f"{where} does not let {to.user} in; is your public key in its authorized_keys? Name user "
        f"and key in your SSH configuration (User, IdentityFile), or load the key with ssh-add"
    )


def _proxy_ended(error: Any, to: Connection, where: str) -> str:
    # Not what it is: a ProxyCommand may have a password among its words.
    return f"{where}: its ProxyCommand ended before SSH was through; run 'ssh {to.host}' to see why"


def _no_file(error: Any, to: Connection, where: str) -> str:
    return f"{where}: {error.filename} is not there; see IdentityFile in your SSH configuration"


_TOLD: tuple[tuple[type[BaseException], Callable[[Any, Connection, str], str]], ...] = (
    (LaunchError, _as_said),
    (socket.gaierror, _unresolved),
    (BadHostKeyException, _wrong_key),
    (UnknownKeyError, _as_said),
    (AuthenticationException, _not_let_in),
    (ChannelException, _no_session),
    (ProxyCommandFailure, _proxy_ended),
    (FileNotFoundError, _no_file),
)


def _of_network(error: BaseException) -> str:
    if isinstance(error, TimeoutError) or "Timeout opening channel" in str(error):
        return _NO_ANSWER
    if isinstance(error, NoValidConnectionsError):
        causes = [one.errno for one in error.errors.values() if isinstance(one, OSError)]
        return _ERRNOS.get(causes[0] or 0, f"cannot be reached: {error}") if causes else str(error)
    if isinstance(error, EOFError):
        return "ended the connection while it was made: see its sshd's log"
    if isinstance(error, SSHException) and _MUTE.search(str(error)):
        return "takes connections but says nothing: its sshd is stopped or overloaded"
    if isinstance(error, OSError) and error.errno in _ERRNOS:
        return _ERRNOS[error.errno]
    return f"SSH failed: {' '.join(str(error).split()) or type(error).__name__}"
