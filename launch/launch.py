"""`python -m launch.launch`: any script that reads DMLC_* on hosts; MXNet's tools/launch.py."""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.secrets import masked_text
from im2rec_tools.signals import exit_code, interruptible
from im2rec_tools.terminal import echo, guard, printable
from launch.addresses import located
from launch.agents import Agents
from launch.channel import Message
from launch.errors import LaunchError
from launch.hostfile import find
from launch.hosts import Host, Login, this_machine
from launch.options import Asked, asked
from launch.push import in_tree, push
from launch.together import together
from launch.tracker import Ending, processes, run

if TYPE_CHECKING:
    from launch.ssh import Ssh


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a job; returns 0, the exit code of the first process that failed, or one of these:

    1 for a host that was lost, 2 for what cannot be done as asked, 128 + n for signal n.
    """
    guard()
    caught = interruptible()
    try:
        ending = _launched(asked(sys.argv[1:] if argv is None else argv, os.environ))
    except LaunchError as error:
        ending = Ending(code=2, message=str(error))
    except BrokenPipeError:  # the reader, such as head, has seen enough
        ending = Ending(code=128 + signal.SIGPIPE)
    except KeyboardInterrupt:
        name = signal.Signals(caught[0]).name
        ending = Ending(code=exit_code(caught), message=f"{name}: every process was ended")
    if ending.message:
        echo(f"error: {masked_text(ending.message)}", err=True)
    return ending.code


def _launched(wanted: Asked) -> Ending:
    if wanted.local:
        return _run(wanted, Agents(), (replace(this_machine(), tree=str(Path.cwd())),))
    hosts = _listed(wanted)
    # Fabric takes a second to load, which a job on this machine does without.
    from launch.ssh import Settings, Ssh  # noqa: PLC0415

    with closing(Ssh(Settings(config=wanted.ssh_config, accept_new=wanted.accept_new))) as ssh:
        hosts = located(ssh.start, hosts, wanted.interface)
        if wanted.sync_dst_dir:
            _sync(ssh, hosts)
        return _run(wanted, Agents(ssh.start), hosts)


def _run(wanted: Asked, agents: Agents, hosts: Sequence[Host]) -> Ending:
    with closing(agents):
        port = agents.free_port(hosts[0], wanted.port)
        return run(processes(wanted, hosts, port), agents, _show)


def _listed(wanted: Asked) -> tuple[Host, ...]:
    """The hosts that the job needs, their addresses yet to be found."""
    listed = find(wanted.hostfile, "", wanted.dialect, os.environ)
    if not listed:
        raise LaunchError(
            "-H: expected a file with a host a line, found none; "
            "give --launcher local to run on this machine"
        )
    logins = [Login.read(host.target, host.port) for host in listed]
    tree = wanted.sync_dst_dir or str(Path.cwd())
    return tuple(
        Host(name=login.target, address="", cpus=0, gpus=0, tree=tree, login=login)
        for login in logins[: max(wanted.workers, wanted.servers)]
    )


def _sync(ssh: "Ssh", hosts: Sequence[Host]) -> None:
    """Copies what is in the current folder to the tree of each host."""
    here = Path.cwd()
    names = [
        str(path.relative_to(here))
        for path in sorted(here.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(here).parts
    ]
    pieces = [in_tree(here, name) for name in names]

    def copy(host: Host) -> None:
        for _ in push(pieces, host, ssh.start, ""):
            pass

    together(copy, hosts)


def _show(message: Message) -> None:
    """Print what a process printed, each line after its name; to a terminal without controls."""
    if message.say != "output":
        return
    who = f"[{message.host.name} {message.values['id'].replace('-', ' ')}] "
    shown = printable if os.isatty(1) else str
    text = "".join(f"{who}{shown(line)}\n" for line in message.values["lines"])
    data = text.encode("utf-8", "replace")
    try:
        while data:
            data = data[os.write(1, data) :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise LaunchError(f"stdout: cannot be written ({error.strerror})") from error


if __name__ == "__main__":
    sys.exit(main())
