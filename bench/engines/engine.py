"""Engine: what the controller asks of a program that can run a trial.

It loads no framework. Processes, hosts, records and reports are the same for every engine. Whatever
differs is a field here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.trial import Trial


@dataclass(frozen=True, kw_only=True)
class Comm:
    """A communication method: how the workers of a job exchange gradients.

    name      stored as `kvstore`, MXNet's word for it
    spans     whether it connects several worker processes
    waits     whether all workers wait for each other in every step
    servers   whether gradients meet in server processes
    borrows   name of another engine whose rendezvous and package its workers use; '' if none
    """

    name: str
    spans: bool = False
    waits: bool = True
    servers: bool = False
    borrows: str = ""


def find_comm(comms: Mapping[str, Comm], name: str) -> Comm:
    """Return the method of this name; one of an imported log is of one process."""
    return comms.get(name) or Comm(name=name, waits="async" not in name)


@dataclass(frozen=True, kw_only=True)
class Place:
    """One process of a plan: role, number, address of its host and of the root.

    hosts   address and devices of each host of the job
    """

    role: str
    index: int
    address: str
    root: tuple[str, int]
    hosts: tuple[tuple[str, int], ...] = ()


# Beginnings of variables by which a worker would join another launcher's job.
MEETING_FOREIGN = ("MASTER_", "RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "ROLE_", "TORCHELASTIC_")
# Variables of `meeting_variables`, and one that a launcher might set.
MEETING_OWN = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "MXSCALE_ADDRESS")


def meeting_variables(place: Place, workers: int) -> dict[str, str]:
    """Return the environment by which workers meet at the first one."""
    return {
        "MASTER_ADDR": place.root[0],
        "MASTER_PORT": str(place.root[1]),
        "RANK": str(place.index),
        "WORLD_SIZE": str(workers),
        "MXSCALE_ADDRESS": place.address,
    }


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What jobs need of the package on a host: several hosts or processes, GPUs."""

    spans: bool = True
    gpu: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Engine:
    """A program that runs trials, by the answers that a job needs of it.

    name          stored name: 'mxnet'
    title         name in texts: 'MXNet 1.9.1'
    scripted      whether it simulates: its times are no measurements, and it needs no hardware
    package       the Python package that every host must have; '' for none
    install       how to add that package to a checkout's environment
    foreign       beginnings of variables that a job must not inherit from another one
    comms         its communication methods, by name
    root          id of the process that the others meet at
    fill          fill in the fields of a trial whose defaults depend on the engine
    check         raise SpecError for a trial that it cannot run
    roles         roles and their number of processes, in order of start
    environment   variables by which a process finds the others
    command       the interpreter's arguments that start process `index` of a role
    wire_bytes    bytes that a worker sends per step, by comm, compression and bytes of gradients
    lacks         the build feature that a host's package lacks; '' if it has all
    no_code       why it cannot compute on a GPU, by facts of the GPU and its host; '' if it can
    software      package and version of environment facts: 'MXNet 1.9.1'; '' if unknown
    """

    name: str
    title: str
    scripted: bool
    package: str
    install: str
    foreign: tuple[str, ...]
    comms: Mapping[str, Comm]
    root: str
    fill: Callable[[dict[str, Any]], None]
    check: "Callable[[Trial], None]"
    roles: "Callable[[Trial], tuple[tuple[str, int], ...]]"
    environment: "Callable[[Trial, Place], dict[str, str]]"
    command: "Callable[[Trial, str, int], tuple[str, ...]]"
    wire_bytes: Callable[[Comm, str, int], int]
    lacks: Callable[[Mapping[str, Any], Needs], str]
    no_code: Callable[[Mapping[str, str], Mapping[str, Any]], str]
    software: Callable[[Mapping[str, Any]], str]
