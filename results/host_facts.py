"""Facts of hosts and controller: how each is stored, reported and compared."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any

# Throughput of one TCP connection from the first host to the last.
RAW_TCP = "raw_tcp_mb_per_second"
_MOST_MEGABYTES = 1e9


class Place(Flag):
    """A place that omits a fact: environment.json, reports, or comparisons of hosts."""

    NONE = 0
    STORE = auto()
    REPORT = auto()
    HOSTS = auto()


@dataclass(frozen=True, kw_only=True)
class Fact:
    """A fact about a host or controller, by its name in probes and environment.json.

    label    in messages, followed by `unit` if there is one
    omitted  the places that omit it because it is temporary, or private to a machine or owner
    order    its place among the facts that preflight compares between hosts; 0: not compared
    required whether it must be equal on all hosts of a job
    text     formats its value for comparisons of runs; None: not compared
    matters  whether runs that differ in it are not comparable
    check    tests whether a stored value has the type that mxscale writes
    """

    name: str
    label: str = ""
    unit: str = ""
    omitted: Place = Place.NONE
    order: int = 0
    required: bool = False
    text: Callable[[Any], str] | None = None
    matters: bool = True
    check: Callable[[object], bool] | None = None

    @property
    def title(self) -> str:
        """The label with its unit."""
        return f"{self.label} ({self.unit})" if self.unit else self.label


def _one_line(value: Any) -> str:
    return "" if value is None else " ".join(str(value).split())


def _count(cores: Any) -> str:
    return str(len(cores) if isinstance(cores, list) else cores)


def _gib(mib: Any) -> str:
    return f"{mib / 1024:.0f}" if isinstance(mib, int | float) else str(mib)


def _gpus(found: Any) -> str:
    kinds = Counter(_gpu(one) for one in found) if isinstance(found, list) else Counter()
    return " and ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))


def _gpu(facts: Any) -> str:
    if not isinstance(facts, dict):
        return str(facts)
    driver = f" (driver {facts['driver']})" if facts.get("driver") else ""
    return f"{facts.get('name', 'GPU')}{driver}"


def _build(facts: Any) -> str:
    """Return version and digest of a library that has more facts than its version."""
    if not isinstance(facts, dict):
        return str(facts)
    return " ".join(str(facts[name]) for name in ("version", "digest") if facts.get(name))


def _minor(version: Any) -> str:
    """Return '3.11' for '3.11.7'."""
    return ".".join(str(version or "").split(".")[:2])


def _is(*kinds: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kinds)


def _of_dicts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and -1e15 < value < 1e15


_is_text = _is(str, type(None))
_ALL = Place.STORE | Place.REPORT | Place.HOSTS
_INSIDE = Place.STORE | Place.HOSTS
# Facts that comparisons of runs use come first, in their order. A fact that is not listed here is
# stored, reported and compared between hosts.
HOST_FACTS = (
    Fact(name="processor", label="processor", text=str),
    Fact(name="cores", label="cores", order=5, text=_count, check=_is(list)),
    Fact(name="memory_mib", label="memory", unit="GiB", order=7, text=_gib, check=_is_number),
    Fact(name="gpus", label="GPUs", order=6, text=_gpus, check=_of_dicts),
    Fact(name="cuda_driver", label="CUDA driver", text=str),
    Fact(name="cuda_runtime", label="CUDA", text=str),
    Fact(name="mxnet", label="MXNet", order=3, required=True, text=str),
    Fact(name="torch", label="PyTorch", order=8, required=True, text=str),
    Fact(name="torch_cuda", label="PyTorch's CUDA", text=str),
    Fact(name="numpy", label="NumPy", text=str),
    Fact(name="opencv", label="OpenCV", text=_build),
    Fact(name="simplejpeg", label="simplejpeg", text=str),
    Fact(name="python", label="Python", order=2, required=True, text=_minor),
    Fact(name="system", label="system", order=1),
    Fact(name="code", label="code", order=4, required=True),
    *(Fact(name=name, omitted=_ALL) for name in ("load", "usage", "available_mib")),
    *(Fact(name=name, omitted=_ALL) for name in ("free_bytes", "disk")),
    *(Fact(name=name, omitted=_ALL) for name in ("reached", "master", "machine", "user")),
    *(Fact(name=name, omitted=_ALL) for name in ("gpu_processes", "cpu_flags")),
    *(Fact(name=name, omitted=_INSIDE) for name in ("say", "time", "holder", "others", "tree")),
    *(Fact(name=name, omitted=_INSIDE) for name in ("shell", "login_shell", "libraries")),
    *(Fact(name=name, omitted=Place.REPORT | Place.HOSTS) for name in ("hostname", "addresses")),
    Fact(name="clock_skew", omitted=Place.HOSTS),
    *(Fact(name=name, omitted=Place.STORE) for name in ("disk_problem", "disk_denied")),
    Fact(name="python_problem", omitted=Place.STORE),
    Fact(name="python_variables", omitted=Place.STORE),
    # Of a GPU.
    *(Fact(name=name, omitted=Place.REPORT) for name in ("used", "index", "clock")),
)
# Facts of the controller and of the run; imported tables store some of them as text.
CONTROLLER_FACTS = (
    Fact(name="processor", label="processor", text=_one_line, check=_is_text),
    Fact(name="cores", label="cores", text=_one_line),
    Fact(name="memory_gib", label="memory", unit="GiB", text=_one_line),
    Fact(name="instances", label="machines", text=_one_line),
    Fact(name="gpus", label="GPUs", text=_one_line),
    Fact(name="software", label="software", text=_one_line),
    Fact(name="mxnet", label="MXNet", text=_one_line),
    Fact(name="torch", label="PyTorch", text=_one_line),
    Fact(name="numpy", label="NumPy", text=_one_line),
    Fact(name="opencv-python-headless", label="OpenCV", text=_one_line),
    Fact(name="simplejpeg", label="simplejpeg", text=_one_line),
    Fact(name="python", label="Python", text=_minor),
    Fact(name=RAW_TCP, label="raw TCP", unit="MB/s", text=_one_line, matters=False),
    Fact(name="commit", label="commit", text=_one_line, matters=False, check=_is_text),
    Fact(name="system", label="system", text=_one_line, matters=False, check=_is_text),
    Fact(name="description", omitted=Place.REPORT, check=_is_text),
    *(Fact(name=name, check=_is_text) for name in ("date", "source", "imported")),
    *(Fact(name=name, omitted=Place.REPORT) for name in ("points", "repeats", "hosts", "order")),
)


def omitted(facts: tuple[Fact, ...], place: Place) -> frozenset[str]:
    """Return the names of the facts that this place omits."""
    return frozenset(fact.name for fact in facts if place in fact.omitted)


def tcp_bytes_per_second(environment: Mapping[str, Any]) -> float | None:
    """Return the bytes per second of one TCP connection; None if unknown."""
    known = environment.get(RAW_TCP)
    if isinstance(known, bool) or not isinstance(known, int | float):
        return None
    return known * 1e6 if 0 < known < _MOST_MEGABYTES else None
