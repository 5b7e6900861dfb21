"""Hosts: the machines of a cluster, their devices and how to reach them."""

import os
import socket
import sys
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.errors import is_whole
from im2rec_tools.options import OptionHelp

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, kw_only=True)
class Login:
    """How to reach a host over SSH; ssh's own configuration fills empty fields.

    `host` may be a name in that configuration; `jump` are the gateways, as in ProxyJump.
    """

    host: str
    user: str = ""
    port: int | None = None
    jump: str = ""

    @staticmethod
    def read(target: str, port: int | None = None, jump: str = "") -> "Login":
        """Parse 'host', 'user@host' and, except for IPv6 addresses, 'host:port'."""
        user, _, host = target.rpartition("@")
        name, colon, number = host.rpartition(":")
        if colon and port is None and ":" not in name and is_whole(number):
            host, port = name, int(number)
        return Login(host=host.strip("[]"), user=user, port=port, jump=jump)

    @property
    def target(self) -> str:
        """The host as the user names it."""
        return self.host if self.port is None else f"{self.host} port {self.port}"


# Where hosts are found without an option.
_FOUND = "$DEEPLEARNING_WORKERS_PATH, else Slurm's hosts, else none"


def _option(metavar: str, text: str, empty: str = "") -> Any:
    known = OptionHelp(metavar, text, empty=empty, group="Hosts")
    return field(default="" if metavar else False, metadata={"help": known})


@dataclass(frozen=True, kw_only=True)
class HostOptions:
    """Options of a command that name and reach hosts, as typed.

    words   words of the command that differ from its defaults, for repeating it
    """

    hostfile: str = _option("FILE", "Hosts file, one host per line; see hosts.example", _FOUND)
    hosts: str = _option("LIST", "Hosts without a file: 'HOST:DEVICES,HOST:DEVICES'", "none")
    hosts_format: str = _option(
        "FORMAT",
        "How to read HOST:N in a hosts file: dmlc (N is the SSH port) or mpich (N devices)",
        "required if ambiguous",
    )
    devices_per_node: str = _option(
        "N", "Training devices of each host; overrides the hosts file", "by the hosts file"
    )
    interface: str = _option(
        "NAME",
        "Network interface that jobs use on the hosts, such as ib0",
        "the interface of the controller's connection",
    )
    tree: str = _option(
        "DIR",
        "Path of the checkout on every host",
        "~/mxscale if it exists, else this checkout's path",
    )
    ssh_config: str = _option("FILE", "SSH client configuration", "~/.ssh/config")
    accept_new: bool = _option("", "Accept the keys of hosts that are not in known_hosts yet")
    via: str = _option(
        "TEMPLATE",
        "Reach hosts by a command in place of SSH, such as 'docker exec -i {host}', or let them "
        "connect: dial:PORT:FILE",
        "SSH",
    )
    words: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Host:
    """One machine.

    address     numeric: MXNet's scheduler cannot bind a name
    cpus, gpus  number of devices of each kind; a trial with more is oversubscribed
    cores       processors that a job may use, for pinning; empty if not known
    machine     equal for hosts that are containers of one machine; empty if not known
    python      path of the interpreter, relative to `tree` if within it
    tree        path of the checkout
    libraries   folders of CUDA's libraries, for processes that load MXNet
    login       how to reach it; None for this machine
    """

    name: str
    address: str
    cpus: int
    gpus: int
    cores: tuple[int, ...] = ()
    machine: str = ""
    python: str = ".venv/bin/python"
    tree: str = "."
    libraries: tuple[str, ...] = ()
    login: Login | None = None

    def devices(self, kind: str) -> int:
        """Return the number of devices of a kind, 'cpu' or 'gpu'."""
        return self.gpus if kind == "gpu" else self.cpus


def this_machine() -> Host:
    """Return this machine; its CPU devices are the cores that this process may use."""
    cores = tuple(sorted(os.sched_getaffinity(0)))
    driver = Path("/proc/driver/nvidia/gpus")
    python = Path(sys.executable)
    return Host(
        name=socket.gethostname(),
        address="127.0.0.1",
        cpus=len(cores),
        gpus=len(list(driver.iterdir())) if driver.is_dir() else 0,
        cores=cores,
        python=str(python.relative_to(ROOT) if python.is_relative_to(ROOT) else python),
        tree=str(ROOT),
    )


def pretend(count: int, devices: int) -> tuple[Host, ...]:
    """Return example hosts with addresses reserved for documentation, to print a plan."""
    return tuple(
        Host(name=f"host{n:02}", address=f"192.0.2.{n}", cpus=devices, gpus=devices)
        for n in range(1, count + 1)
    )


def rehearse(count: int, devices: int) -> tuple[Host, ...]:
    """Return hosts that are all this machine, for the simulated engine."""
    here = this_machine()
    return tuple(
        replace(here, name=f"host{n:02}", cpus=devices, gpus=devices, cores=())
        for n in range(1, count + 1)
    )


def lease_owner(host: Host) -> dict[str, object] | None:
    """Return the owner for a host's lease.

    None for this machine, which may simulate many hosts.
    """
    from launch.remote.facts import user  # noqa: PLC0415 - 'fab --list' loads this module

    if host.login is None:
        return None
    return {
        "user": user(),
        "master": socket.gethostname(),
        "process": os.getpid(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
