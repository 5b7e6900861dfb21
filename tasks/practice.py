"""Tasks `practice.*`: a local test cluster of network namespaces."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import parse_int
from im2rec_tools.options import OptionHelp
from im2rec_tools.terminal import echo
from launch.hosts import ROOT
from tasks.cli import command, read_only_command, short_path, task
from tasks.help import DeclaredTask

if TYPE_CHECKING:
    from launch.practice.network import Link

_DIR = {"dir": OptionHelp("DIR", "Folder of the cluster", empty=".practice")}


def _folder(text: str) -> Path:
    return Path(text) if text else ROOT / ".practice"


@task(
    {
        "hosts": OptionHelp("N", "Number of hosts"),
        "slots": OptionHelp("N", "Devices per host in the hosts file"),
        "home": OptionHelp("SIZE", "Size of each host's /home, such as 512m"),
        **_DIR,
    },
    example="--hosts 4 --slots 2",
)
@command
def practice_up(c, hosts="4", slots="2", home="2g", dir=""):  # type: ignore[no-untyped-def]
    """Start a local test cluster; needs root.

    Each host is a network namespace of this machine with an SSH server of its own.
    """
    from launch.practice.cluster import NOBODY, up
    from launch.practice.start import owner_of_terminal

    owner = owner_of_terminal()
    cluster = up(
        _folder(dir),
        hosts=parse_int("--hosts", hosts),
        slots=parse_int("--slots", slots),
        owner=owner or NOBODY,
        home=home,
    )
    given = f" --dir {dir}" if dir else ""
    first = cluster.nodes[0].name
    echo(f"{len(cluster.nodes)} hosts; they reach this machine at {cluster.address}", "")
    echo(f"hostfile    {short_path(cluster.hostfile)}")
    echo(f"ssh config  {short_path(cluster.ssh_config)}", "")
    files = (short_path(cluster.hostfile), "--ssh-config", short_path(cluster.ssh_config))
    echo(f"fab bench.sweep smoke --hostfile {shlex.join(map(str, files))} --devices-per-node 1")
    echo(f"ssh -F {short_path(cluster.ssh_config)} {first} hostname")
    echo(f"fab practice.show{given}")
    echo(f"fab practice.cut {first}{given}")
    echo(f"fab practice.restore {first}{given}")
    echo(f"fab practice.down{given}", "")
    echo(
        f"The cluster ends with this terminal (process {owner})."
        if owner
        else "The cluster runs until then."
    )


def _fault_task(name: str, text: str, *aliases: str) -> DeclaredTask:
    """Make the task that calls the function of this name of launch.practice.cluster."""

    def body(c, host, dir=""):  # type: ignore[no-untyped-def]
        from launch.practice import cluster

        getattr(cluster, name)(cluster.load(_folder(dir)), host)

    body.__name__, body.__doc__ = f"practice_{name}", text
    declared = {"host": OptionHelp("HOST", "Name of the host, such as node03"), **_DIR}
    return task(declared, aliases=aliases)(command(body))


practice_cut = _fault_task("cut", "Take a host's network link down; packets are lost.")
practice_mend = _fault_task("mend", "Bring a host's network link up again.", "restore")
practice_kill = _fault_task("kill", "Kill a host, as a power failure would.")


@task({"rate": OptionHelp("RATE", "Limit, such as 200mbit or 1gbit; none removes it"), **_DIR})
@command
def practice_rate(c, rate, dir=""):  # type: ignore[no-untyped-def]
    """Limit the bandwidth of all hosts' links.

    The limit holds in each direction.
    """
    from launch.practice import cluster

    cluster.rate(cluster.load(_folder(dir)), rate)


@task(_DIR)
@command
def practice_down(c, dir=""):  # type: ignore[no-untyped-def]
    """End the local test cluster."""
    from launch.practice.cluster import down

    if not down(_folder(dir)):
        echo(f"{_folder(dir)}: no local test cluster is running")


@task(_DIR)
@read_only_command
def practice_show(c, dir=""):  # type: ignore[no-untyped-def]
    """Print each host's address, link state and PID."""
    from launch.practice.cluster import load
    from launch.practice.network import links

    cluster = load(_folder(dir))
    now = links(cluster)
    for node in cluster.nodes:
        echo(f"{node.name}  {node.address:15}  {_state(now.get(node.name)):22}  pid {node.pid}")
    echo(f"controller  {cluster.address}")
    echo(f"ssh -F {short_path(cluster.ssh_config)} {cluster.nodes[0].name}")


def _state(link: "Link | None") -> str:
    if link is None:
        return "killed"
    limit = f"{link.bits_per_second / 1e6:g} Mbit/s" if link.bits_per_second else "no limit"
    return f"{'up' if link.up else 'cut'}, {limit}"
