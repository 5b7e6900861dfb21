"""What is wrong with a host that was examined, and in what it differs from the others. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from bench.errors import is_whole
from launch.hosts import Host
from launch.remote.lease import described, listed
from launch.transport.line import STARTUP
from results.host_facts import HOST_FACTS

# Windows of asynchronous jobs are compared by the hosts' clocks.
_SKEW_SECONDS = 1.0
_FREE_BYTES = 1 << 30
_USED_MIB, _BUSY = 500, 0.5
# The lowest and highest compute capability that MXNet 1.9.1's wheels hold code for.
_LOWEST_CODE, _NO_CODE = 5.0, 9.0
_INSTALL = "'fab hosts.install' with the same hosts puts it there"
# In these a job's hosts have to be alike, or are slowed by the one that is not; by column.
_ALIKE = {
    fact.name.removesuffix("_mib"): fact
    for fact in sorted(HOST_FACTS, key=lambda fact: fact.order)
    if fact.order
}
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """What the hosts are examined for.

    tree       the checkout there; empty: ~/mxscale, or else where this one is
    interface  the network interface whose address is used
    code       the hash of the master's code, empty where it does not matter
    mxnet      whether MXNet is needed; device: 'cpu' or 'gpu'
    bandwidth  whether to measure between all pairs
    """

    tree: str = ""
    interface: str = ""
    code: str = ""
    mxnet: bool = True
    device: str = "cpu"
    bandwidth: bool = False


@dataclass(frozen=True, kw_only=True)
class HostReport:
    """A host as it was found, with its own address, its facts, and what keeps it from a job.

    reach   milliseconds (ms) and 10^6 bytes a second (mb_s) to other hosts, where asked for
    differs names of what it has unlike most others
    """

    host: Host
    facts: dict[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    reach: dict[str, dict[str, float]] = field(default_factory=dict)
    differs: tuple[str, ...] = ()


def problems(facts: dict[str, Any], wanted: Requirements) -> list[str]:
    """Why no job can run on a host that was examined, each with what to do."""
    found = [*_of_code(facts, wanted), *_of_disk(facts)]
    if wanted.mxnet and not found:
        found += _of_mxnet(facts, wanted)
    if abs(facts["clock_skew"]) > _SKEW_SECONDS:
        found.append(
            f"its clock is {facts['clock_skew']:+.1f} s off this machine's; set up NTP (chrony)"
        )
    if facts["holder"]:
        found.append(taken(facts["holder"]))
    return found


def taken(holder: dict[str, Any]) -> str:
    """That another master has a host, with what to do."""
    return (
        f"another master has it: {described(holder)}; wait for it, or end it with "
        f"'fab hosts.stop' and the same hosts"
    )


def notes(facts: dict[str, Any]) -> list[str]:
    """What should be known of a host before its numbers are believed."""
    found = []
    for gpu in facts["gpus"]:
        name = f"GPU {gpu['index']} ({gpu['name']}, {gpu['memory']} MiB)"
        if gpu["mig"] == "Enabled":
            found.append(f"{name} is cut into parts (MIG); a part is no GPU of its own here")
        # A driver does not say what is in use of one that is cut into parts.
        if is_whole(gpu["used"]) and int(gpu["used"]) > _USED_MIB:
            found.append(f"{name} has {gpu['used']} MiB in use")
    if facts["gpu_processes"]:
        pids = ", ".join(map(str, facts["gpu_processes"]))
        found.append(f"others compute on its GPUs (processes {pids})")
    if facts["load"] > _BUSY * len(facts["cores"]):
        found.append(f"is busy: load {facts['load']:.1f} on {len(facts['cores'])} cores")
    if facts["others"]:
        found.append(f"other users measure there too, which disturbs: {listed(facts['others'])}")
    if facts["shell"] != facts["login_shell"]:
        found.append(
            f"python3 is {facts['shell']} for programs and {facts['login_shell']} when you log in"
        )
    return found


def _of_code(facts: dict[str, Any], wanted: Requirements) -> list[str]:
    if not facts["tree"]:
        return [f"has no checkout at {wanted.tree or '~/mxscale'}; {_INSTALL}"]
    if facts.get("code_problem"):
        return [
            f"its checkout cannot be read ({facts['code_problem']}); make it readable for "
            f"{facts['user']}"
        ]
    if wanted.code and facts["code"] != wanted.code:
        return [
            f"{facts['tree']} has other code ({facts['code']}) than this machine "
            f"({wanted.code}); {_INSTALL}"
        ]
    if facts["python_problem"] and wanted.mxnet:
        names = " and ".join(facts.get("python_variables", []))
        fix = f"take {names} out of the start-up file ({STARTUP})" if names else _INSTALL
        return [f"the Python of {facts['tree']} cannot be used ({facts['python_problem']}); {fix}"]
    return []


def _of_disk(facts: dict[str, Any]) -> list[str]:
    if facts["disk_problem"]:
        return [f"cannot write to {facts['disk']} ({facts['disk_problem']}); make room there"]
    if facts["free_bytes"] < _FREE_BYTES:
        return [f"has {facts['free_bytes'] / 1e9:.1f} GB free at {facts['disk']}, needs 1 GB"]
    return []


def _of_mxnet(facts: dict[str, Any], wanted: Requirements) -> list[str]:
    if not facts["dist_kvstore"]:
        return [f"its MXNet {facts['mxnet']} was built without DIST_KVSTORE; {_INSTALL}"]
    if wanted.device != "gpu":
        return []
    if facts["gpu_problem"]:
        return [facts["gpu_problem"]]
    if not facts["gpus"]:
        return ["has no GPU that its driver shows; measure with device = 'cpu'"]
    if found := [why for gpu in facts["gpus"] if (why := no_code(gpu))]:
        return found[:1]
    return [] if facts["cuda"] else [f"its MXNet has no CUDA; {_INSTALL}"]


def no_code(gpu: dict[str, str]) -> str:
    """Why MXNet 1.9.1 cannot compute on a GPU; empty where it can."""
    try:
        capability = float(gpu["compute_cap"])
    except ValueError:
        return ""
    if _LOWEST_CODE <= capability < _NO_CODE:
        return ""
    return (
        f"GPU {gpu['index']} ({gpu['name']}) has compute capability {gpu['compute_cap']}; MXNet "
        f"1.9.1's wheels hold code for 5.0 to 8.9 (Maxwell to Ada) and nothing to compile other "
        f"code from: measure on CPU here, use hosts with such GPUs, or build MXNet from source"
    )


def value(examined: HostReport, name: str) -> str:
    """What is compared between hosts and shown, in short."""
    facts = examined.facts
    if not facts:
        return ""
    if name == "cores":
        return str(len(facts["cores"]))
    if name == "gpus":
        kinds = Counter(gpu["name"] for gpu in facts["gpus"])
        return ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "none"
    if name == "memory":
        return f"{facts['memory_mib'] / 1024:.0f} GiB"
    if name == "python":
        return ".".join(facts["python"].split(".")[:2])
    return str(facts[name])


def compare_hosts(
    found: Sequence[HostReport], own: Mapping[str, str] = NOTHING
) -> list[HostReport]:
    """The hosts with what each has unlike the controller, or else unlike most of the others.

    `own` has the controller's values, an empty one if it does not matter. Its code always counts,
    its versions if a host has them too: hosts that are alike may differ from it. In code and
    versions hosts may not differ.
    """
    for name in (name for name in _ALIKE if own.get(name, True)):
        counts = Counter(value(one, name) for one in found if value(one, name))
        if own.get(name) in counts or (name == "code" and "code" in own):
            found = [_compared(one, name, own[name], "controller") for one in found]
        elif len(counts) > 1:
            (most, first), (_, second), *_ = counts.most_common()
            if first > second:
                found = [_compared(one, name, most, "most") for one in found]
            else:  # each has what others have not
                rest = [" or ".join(sorted(set(counts) - {value(one, name)})) for one in found]
                pairs = zip(found, rest, strict=True)
                found = [_compared(one, name, others, "others") for one, others in pairs]
    return list(found)


def _compared(
    one: HostReport, name: str, expected: str, whose: Literal["controller", "most", "others"]
) -> HostReport:
    if value(one, name) in {"", expected}:
        return one
    differs = (*one.differs, name)
    have = "the controller has" if whose == "controller" else f"{whose} have"
    fact = _ALIKE[name]
    difference = f"{fact.label} {value(one, name)}, {have} {expected}"
    if fact.required and not one.problems:
        whom = "the controller" if whose == "controller" else "the others"
        return replace(one, differs=differs, problems=(f"differs from {whom}: {difference}",))
    if fact.required:
        return replace(one, differs=differs)
    return replace(one, differs=differs, notes=(*one.notes, difference))
