"""Why a host cannot be reached, in a sentence with what to do."""

import errno
import re
import shlex
import socket

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


def explain(error: BaseException, to: Connection) -> str:  # noqa: PLR0911 - a cause each
    """What went wrong with a connection, where, and what to do."""
    where = f"{to.host} port {to.port}"
    match error:
        case LaunchError() | UnknownKeyError():
            return str(error)
        case socket.gaierror():
            return (
                f"the name {to.host} cannot be resolved; check its spelling, or give its address "
                f"as HostName in your SSH configuration"
            )
        case BadHostKeyException():
            known, got = error.expected_key, error.key
            return (
                f"its key differs from the known one (expected {known.get_name()} "
                f"{known.fingerprint}, got {got.get_name()} {got.fingerprint}); refused. If the "
                f"host was set up anew, remove the old key: ssh-keygen -R "
                f"{shlex.quote(known_as(to))} -f {files_of(to)[0]}"
            )
        case PasswordRequiredException():
            return f"{where}: the key is locked by a passphrase; unlock it with ssh-add"
        case AuthenticationException():
            return (
                f"{where} does not let {to.user} in; is your public key in its authorized_keys? "
                f"Name user and key in your SSH configuration (User, IdentityFile), or load the "
                f"key with ssh-add"
            )
        case ChannelException():
            return f"refused to open a session ({error}); see MaxSessions of its sshd"
        case ProxyCommandFailure():
            # Not what it is: a ProxyCommand may have a password among its words.
            return (
                f"{where}: its ProxyCommand ended before SSH was through; run 'ssh {to.host}' to "
                f"see why"
            )
        case FileNotFoundError():
            file = error.filename
            return f"{where}: {file} is not there; see IdentityFile in your SSH configuration"
    return f"{where} {_of_network(error)}"


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
