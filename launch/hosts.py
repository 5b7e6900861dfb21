"""Hosts: the machines of a cluster and what each has."""

import getpass
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
    """How a host is reached over SSH; what is empty is as ssh's own configuration says.

    host is a name that configuration may know, jump the gateways on the way, as in ProxyJump.
    """

    host: str
    user: str = ""
    port: int | None = None
    jump: str = ""

    @staticmethod
    def read(target: str, port: int | None = None, jump: str = "") -> "Login":
        """Of 'host', 'user@host' and, where it is no IPv6 address, 'host:port'."""
        user, _, host = target.rpartition("@")
        name, colon, number = host.rpartition(":")
        if colon and port is None and ":" not in name and is_whole(number):
            host, port = name, int(number)
        return Login(host=host.strip("[]"), user=user, port=port, jump=jump)

    @property
    def target(self) -> str:
        """The host as a person names it."""
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
    hosts: str = _option("LIST", "Hosts without a file: 'HOST:DEVICES,HOST:DEVICES'")
    hosts_format: str = _option(
        "FORMAT", "Meaning of N in 'HOST:N': dmlc (SSH port), mpich (devices)"
    )
    devices_per_node: str = _option("N", "Training devices of each host; overrides the hosts file")
    interface: str = _option(
        "NAME",
        "Network interface that jobs use on the hosts, such as ib0",
        "the interface that SSH uses",
    )
    tree: str = _option(
        "DIR", "Checkout on the hosts", "~/mxscale if it exists, else this checkout's path"
    )
    ssh_config: str = _option("FILE", "SSH client configuration", "~/.ssh/config")
    accept_new: bool = _option("", "Accept the keys of hosts that are not in known_hosts yet")
    words: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Host:
    """One machine.

    address     numeric: MXNet's scheduler cannot bind a name
    cpus, gpus  how many devices of each kind; a trial that puts more on it is emulated
    cores       the processors a job may use, for pinning; empty where they are not known
    machine     the same for hosts that are containers of one machine; empty where it is not known
    python      interpreter there, relative to `tree` where it lies within
    tree        the checkout there
    libraries   folders of CUDA's libraries, for processes that load MXNet
    login       how it is reached; None for this machine
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
        """How many devices of the kind, 'cpu' or 'gpu', it has."""
        return self.gpus if kind == "gpu" else self.cpus


def this_machine() -> Host:
    """The machine this runs on; its CPU devices are the cores this process may use."""
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
    """Hosts that do not exist, on addresses kept for documentation, to look at a plan with."""
    return tuple(
        Host(name=f"host{n:02}", address=f"192.0.2.{n}", cpus=devices, gpus=devices)
        for n in range(1, count + 1)
    )


def rehearse(count: int, devices: int) -> tuple[Host, ...]:
    """As many agents on this machine, each playing a host, for the fake engine."""
    here = this_machine()
    return tuple(
        replace(here, name=f"host{n:02}", cpus=devices, gpus=devices, cores=())
        for n in range(1, count + 1)
    )


def lease_owner(host: Host) -> dict[str, object] | None:
    """What the lease of a host says; None for this machine, which may play many hosts."""
    if host.login is None:
        return None
    return {
        "user": getpass.getuser(),
        "master": socket.gethostname(),
        "process": os.getpid(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
