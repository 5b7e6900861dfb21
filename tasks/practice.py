"""practice.*: a cluster on this machine, to try things on."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from invoke.tasks import Task

from bench.errors import parse_int
from im2rec_tools.terminal import echo
from launch.hosts import ROOT
from tasks.cli import command, read_only_command, short_path, task

if TYPE_CHECKING:
    from launch.practice.network import Link

_DIR = {"dir": "the cluster's folder; default: .practice"}


def _folder(text: str) -> Path:
    return Path(text) if text else ROOT / ".practice"


@task(
    help={
        "hosts": "how many",
        "slots": "devices that the hostfile gives each",
        "home": "size of each host's /home, such as 512m",
        **_DIR,
    }
)
@command
def practice_up(c, hosts="4", slots="2", home="2g", dir=""):  # type: ignore[no-untyped-def]
    """Start hosts on this machine; needs root."""
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
    echo(f"{len(cluster.nodes)} hosts; to them this machine is {cluster.address}", "")
    echo(f"hostfile    {short_path(cluster.hostfile)}")
    echo(f"ssh config  {short_path(cluster.ssh_config)}", "")
    echo(f"ssh -F {short_path(cluster.ssh_config)} {first} hostname")
    echo(f"fab practice.show{given}")
    echo(f"fab practice.cut {first}{given}     then mend, or rate 200mbit, or kill {first}")
    echo(f"fab practice.down{given}", "")
    echo(f"It ends with this terminal (process {owner})." if owner else "It stays until then.")


def _fault_task(name: str, text: str) -> "Task[Any]":
    """The task that does to a host what the function of this name of a cluster does."""

    def body(c, host, dir=""):  # type: ignore[no-untyped-def]
        from launch.practice import cluster

        getattr(cluster, name)(cluster.load(_folder(dir)), host)

    body.__name__, body.__doc__ = f"practice_{name}", text
    made: Task[Any] = task(help={"host": "such as node03", **_DIR})(command(body))
    return made


practice_cut = _fault_task("cut", "Take a host's link down; what is sent is lost silently.")
practice_mend = _fault_task("mend", "Take a host's link up again.")
practice_kill = _fault_task("kill", "End a host as a loss of power does.")


@task(help={"rate": "such as 200mbit or 1gbit; none: no limit", **_DIR})
@command
def practice_rate(c, rate, dir=""):  # type: ignore[no-untyped-def]
    """Limit the links of all hosts, in each direction."""
    from launch.practice import cluster

    cluster.rate(cluster.load(_folder(dir)), rate)


@task(help=_DIR)
@command
def practice_down(c, dir=""):  # type: ignore[no-untyped-def]
    """End the cluster."""
    from launch.practice.cluster import down

    if not down(_folder(dir)):
        echo("no practice cluster runs here")


@task(help=_DIR)
@read_only_command
def practice_show(c, dir=""):  # type: ignore[no-untyped-def]
    """Print each host's address, link and first process."""
    from launch.practice.cluster import load
    from launch.practice.network import links

    cluster = load(_folder(dir))
    now = links(cluster)
    for node in cluster.nodes:
        echo(f"{node.name}  {node.address:15}  {_state(now.get(node.name)):22}  pid {node.pid}")
    echo(f"master  {cluster.address}")
    echo(f"ssh -F {short_path(cluster.ssh_config)} {cluster.nodes[0].name}")


def _state(link: "Link | None") -> str:
    if link is None:
        return "killed"
    limit = f"{link.bits_per_second / 1e6:g} Mbit/s" if link.bits_per_second else "no limit"
    return f"{'up' if link.up else 'cut'}, {limit}"
