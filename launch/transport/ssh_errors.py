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

from launch.remote.errors import LaunchError, error_line
from launch.transport.host_keys import UnknownKeyError, files_of, known_as

_MUTE = re.compile("banner|No existing session")
_NO_ANSWER = error_line(
    "",
    problem="did not answer within 10 s",
    fix="Check that the host is up and the firewall allows SSH",
)
_ERRNOS = {
    errno.ECONNREFUSED: error_line(
        "", problem="refused the connection", fix="Check that sshd runs on this port"
    ),
    errno.EHOSTUNREACH: error_line(
        "",
        problem="cannot be reached: no such machine on this network, or it is down",
        fix="Correct its address in the hosts file or your SSH configuration",
    ),
    errno.ENETUNREACH: error_line(
        "",
        problem="cannot be reached: this machine has no route to its network",
        fix="Correct its address, or connect this machine to that network",
    ),
    errno.ETIMEDOUT: _NO_ANSWER,
    errno.ECONNRESET: error_line(
        "", problem="closed the connection at once", fix="See the log of its sshd"
    ),
    errno.EMFILE: error_line(
        "", problem="needs more open files than this process may have", fix="Raise ulimit -n"
    ),
    errno.ENFILE: error_line(
        "", problem="needs more open files than this machine may have", fix="Raise fs.file-max"
    ),
}


def explain(  # noqa: PLR0911 - a cause each
    error: BaseException, to: Connection, called: str = ""
) -> str:
    """Return the message for a failed connection: the place, the cause and the fix.

    Without the place if that is how the host is `called`: the caller's line begins with it.
    """
    full = f"{to.host} port {to.port}"
    where = "" if called == full else full
    match error:
        case LaunchError() | UnknownKeyError():
            return str(error)
        case socket.gaierror():
            return error_line(
                "",
                problem=f"the name {to.host} cannot be resolved",
                fix="Check its spelling, or set its address as HostName in your SSH configuration",
            )
        case BadHostKeyException():
            known, got = error.expected_key, error.key
            return error_line(
                "",
                problem=(
                    f"host key differs from the known one (expected {known.get_name()} "
                    f"{known.fingerprint}, got {got.get_name()} {got.fingerprint}); refused"
                ),
                fix=(
                    f"If the host was reinstalled, remove the old key: ssh-keygen -R "
                    f"{shlex.quote(known_as(to))} -f {files_of(to)[0]}"
                ),
            )
        case PasswordRequiredException():
            problem = "the SSH key has a passphrase"
            return error_line(where, problem=problem, fix="Unlock it with ssh-add")
        case AuthenticationException():
            return error_line(
                "",
                problem=f"{where} rejected the login of {to.user}".lstrip(),
                fix=(
                    "Check that its authorized_keys has your public key, set User and IdentityFile "
                    "in your SSH configuration, or load the key with ssh-add"
                ),
            )
        case ChannelException():
            problem = f"{where} refused to open a session ({error})".lstrip()
            return error_line("", problem=problem, fix="Raise MaxSessions of its sshd")
        case ProxyCommandFailure():
            # Without the command: a ProxyCommand may contain a password.
            problem = "the ProxyCommand ended before SSH was connected"
            return error_line(where, problem=problem, fix=f"Run 'ssh {to.host}' to see the cause")
        case FileNotFoundError():
            problem = f"{error.filename} does not exist"
            fix = "Correct IdentityFile in your SSH configuration"
            return error_line(where, problem=problem, fix=fix)
    return f"{where} {_of_network(error)}".lstrip()


def _of_network(error: BaseException) -> str:
    if isinstance(error, TimeoutError) or "Timeout opening channel" in str(error):
        return _NO_ANSWER
    if isinstance(error, NoValidConnectionsError):
        causes = [one.errno for one in error.errors.values() if isinstance(one, OSError)]
        return _ERRNOS.get(causes[0] or 0, f"cannot be reached: {error}") if causes else str(error)
    if isinstance(error, EOFError):
        problem = "closed the connection during the handshake"
        return error_line("", problem=problem, fix="See the log of its sshd")
    if isinstance(error, SSHException) and _MUTE.search(str(error)):
        problem = "accepts connections but sends nothing: its sshd is suspended or overloaded"
        return error_line("", problem=problem, fix="Check the load of the host")
    if isinstance(error, OSError) and error.errno in _ERRNOS:
        return _ERRNOS[error.errno]
    problem = f"SSH failed: {' '.join(str(error).split()) or type(error).__name__}"
    return error_line("", problem=problem, fix="Log in with ssh to see the cause")
