"""Error messages of SSH connections, each with the cause and the fix."""

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
_REFUSED = "refused the connection. Check that sshd runs on this port"
_NO_ANSWER = "did not answer within 10 s. Check that the host is up and the firewall allows SSH"
_ERRNOS = {
    errno.ECONNREFUSED: _REFUSED,
    errno.EHOSTUNREACH: "cannot be reached: no such machine on this network, or it is down",
    errno.ENETUNREACH: "cannot be reached: this machine has no route to its network",
    errno.ETIMEDOUT: _NO_ANSWER,
    errno.ECONNRESET: "closed the connection at once. See the log of its sshd",
    errno.EMFILE: "needs more open files than this process may have. Raise ulimit -n",
    errno.ENFILE: "needs more open files than this machine may have. Raise fs.file-max",
}


def explain(error: BaseException, to: Connection) -> str:  # noqa: PLR0911 - a cause each
    """Return the message for a failed connection: the cause, the place and the fix."""
    where = f"{to.host} port {to.port}"
    match error:
        case LaunchError() | UnknownKeyError():
            return str(error)
        case socket.gaierror():
            return (
                f"the name {to.host} cannot be resolved. Check its spelling, or set its address "
                f"as HostName in your SSH configuration"
            )
        case BadHostKeyException():
            known, got = error.expected_key, error.key
            return (
                f"host key differs from the known one (expected {known.get_name()} "
                f"{known.fingerprint}, got {got.get_name()} {got.fingerprint}); refused. If the "
                f"host was reinstalled, remove the old key: ssh-keygen -R "
                f"{shlex.quote(known_as(to))} -f {files_of(to)[0]}"
            )
        case PasswordRequiredException():
            return f"{where}: the SSH key has a passphrase. Unlock it with ssh-add"
        case AuthenticationException():
            return (
                f"{where} rejected the login of {to.user}. Check that its authorized_keys has your "
                f"public key, set User and IdentityFile in your SSH configuration, or load the key "
                f"with ssh-add"
            )
        case ChannelException():
            return f"{where} refused to open a session ({error}). Raise MaxSessions of its sshd"
        case ProxyCommandFailure():
            # Without the command: a ProxyCommand may contain a password.
            return (
                f"{where}: the ProxyCommand ended before SSH was connected. Run 'ssh {to.host}' to "
                f"see the cause"
            )
        case FileNotFoundError():
            file = error.filename
            return f"{where}: {file} does not exist. Correct IdentityFile in your SSH configuration"
    return f"{where} {_of_network(error)}"


def _of_network(error: BaseException) -> str:
    if isinstance(error, TimeoutError) or "Timeout opening channel" in str(error):
        return _NO_ANSWER
    if isinstance(error, NoValidConnectionsError):
        causes = [one.errno for one in error.errors.values() if isinstance(one, OSError)]
        return _ERRNOS.get(causes[0] or 0, f"cannot be reached: {error}") if causes else str(error)
    if isinstance(error, EOFError):
        return "closed the connection during the handshake. See the log of its sshd"
    if isinstance(error, SSHException) and _MUTE.search(str(error)):
        return "accepts connections but sends nothing: its sshd is suspended or overloaded"
    if isinstance(error, OSError) and error.errno in _ERRNOS:
        return _ERRNOS[error.errno]
    return f"SSH failed: {' '.join(str(error).split()) or type(error).__name__}"
