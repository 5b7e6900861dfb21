"""Problems of a checked host, and its differences from the other hosts. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from bench.engines.catalog import ENGINES
from bench.engines.engine import Engine, Needs
from bench.engines.mxnet import MXNET
from bench.errors import is_whole
from bench.training.startup import newest_instruction_set
from launch.hosts import Host
from launch.remote.errors import error_line
from launch.remote.facts import OTHERS_SHARE
from launch.remote.lease import described, listed
from launch.transport.line import STARTUP
from results.host_facts import HOST_FACTS

# Windows of asynchronous jobs are compared by the hosts' clocks.
_SKEW_SECONDS = 1.0
_FREE_BYTES = 1 << 30
_USED_MIB = 500
# Names in a line of hosts that have the same problem.
_MOST_NAMES = 4
_INSTALL = "Run 'fab hosts.install' with the same hosts"
# Facts in which the hosts of a job must or should be alike, by column.
_ALIKE = {
    fact.name.removesuffix("_mib"): fact
    for fact in sorted(HOST_FACTS, key=lambda fact: fact.order)
    if fact.order
}
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """Requirements that hosts are checked against.

    tree       checkout on the hosts; empty: ~/mxscale, or else the path of this one
    interface  network interface whose address is used
    code       hash of the controller's code; empty if it does not matter
    engines    the engines whose package is needed; None: those that the hosts have
    device     'cpu' or 'gpu'
    bfloat16   whether CPUs must have AVX-512, without which workers reject bfloat16
    bandwidth  whether to measure latency and bandwidth between all pairs
    """

    tree: str = ""
    interface: str = ""
    code: str = ""
    engines: tuple[Engine, ...] | None = (MXNET,)
    device: str = "cpu"
    bfloat16: bool = False
    bandwidth: bool = False


@dataclass(frozen=True, kw_only=True)
class HostReport:
    """Result of a host's check: its address, facts and problems.

    reach    latency (ms) and bandwidth (mb_s, 10^6 bytes per second) to other hosts, if measured
    differs  names of the facts in which it differs from most hosts
    """

    host: Host
    facts: dict[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    reach: dict[str, dict[str, float]] = field(default_factory=dict)
    differs: tuple[str, ...] = ()


def problems(facts: dict[str, Any], wanted: Requirements, *, local: bool = False) -> list[str]:
    """Return the problems that keep jobs from a checked host, each with its fix.

    `local` if the host is this machine, whose environment `make` creates.
    """
    found = [*_of_code(facts, wanted), *_of_disk(facts)]
    if not found:
        found += _of_engines(wanted.engines or (), facts, wanted.device, local=local)
    if wanted.bfloat16:
        found += without_avx512(frozenset(facts["cpu_flags"]))
    if abs(facts["clock_skew"]) > _SKEW_SECONDS:
        found.append(
            error_line(
                "",
                problem=f"clock is {facts['clock_skew']:+.1f} s off the controller's",
                fix="Set up NTP (chrony)",
            )
        )
    if facts["holder"]:
        found.append(taken(facts["holder"]))
    return found


def without_avx512(flags: frozenset[str]) -> list[str]:
    """Return the problem of a CPU that lacks AVX-512, which bfloat16 needs."""
    newest = newest_instruction_set(flags)
    if newest.startswith("AVX512"):
        return []
    got = newest or "no known instruction set"
    expected = "a CPU with AVX-512"
    return [error_line("dtype bfloat16", expected=expected, got=got, fix="Use float32")]


def taken(holder: dict[str, Any]) -> str:
    """Return the problem of a host that another controller uses, with its fix."""
    return error_line(
        "",
        problem=f"another controller uses this host: {described(holder)}",
        fix="Wait for it, or end it with 'fab hosts.stop' and the same hosts",
    )


def without_name(problem: str, name: str) -> str:
    """Return a problem with a placeholder for its host, to find equal ones."""
    # Not in '-n1', an option of srun.
    return re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "{host}", problem)


def problem_lines(found: Iterable[tuple[str, str]]) -> list[str]:
    """Return a line per problem of (host, problem); hosts share an equal one."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for name, problem in found:
        alike.setdefault(without_name(problem, name), []).append((name, problem))
    return [f"{_names([name for name, _ in same])}: {same[0][1]}" for same in alike.values()]


def _names(names: Sequence[str]) -> str:
    shown, more = names[:_MOST_NAMES], len(names) - _MOST_NAMES
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def usage_text(usage: dict[str, Any]) -> str:
    """Return '2 other programs use 1.7 of 2 cores'; '' if that is too little."""
    if not usage or usage["cores"] <= OTHERS_SHARE * usage["of"]:
        return ""
    count = usage["programs"]
    programs = f"{count} other programs use" if count != 1 else "1 other program uses"
    if not count:  # they are in another container, or live for moments only
        programs = "other programs use"
    return f"{programs} {usage['cores']:.1f} of {usage['of']} cores"


def notes(facts: dict[str, Any]) -> list[str]:
    """Return the caveats of a host that can distort its numbers."""
    found = []
    for gpu in facts["gpus"]:
        name = f"GPU {gpu['index']} ({gpu['name']}, {gpu['memory']} MiB)"
        if gpu["mig"] == "Enabled":
            found.append(f"{name} is partitioned (MIG); mxscale does not use a partition as a GPU")
        # The driver does not report the memory in use of a partitioned GPU.
        if is_whole(gpu["used"]) and int(gpu["used"]) > _USED_MIB:
            found.append(f"{name} has {gpu['used']} MiB in use")
    if facts["gpu_processes"]:
        pids = ", ".join(map(str, facts["gpu_processes"]))
        found.append(f"other programs use its GPUs (processes {pids})")
    if busy := usage_text(facts.get("usage", {})):
        found.append(f"busy host: {busy}")
    if facts["others"]:
        found.append(f"interference: other users measure on this host: {listed(facts['others'])}")
    if facts["shell"] != facts["login_shell"]:
        found.append(
            f"python3 is {facts['shell']} for programs, but {facts['login_shell']} in a login shell"
        )
    return found


def _of_code(facts: dict[str, Any], wanted: Requirements) -> list[str]:
    if not facts["tree"]:
        problem = f"no checkout at {wanted.tree or '~/mxscale'}"
        return [error_line("", problem=problem, fix=_INSTALL)]
    if facts.get("code_problem"):
        return [
            error_line(
                "",
                problem=f"the checkout cannot be read ({facts['code_problem']})",
                fix=f"Make it readable for user {facts['user']}",
            )
        ]
    if wanted.code and facts["code"] != wanted.code:
        return [
            error_line(
                "",
                expected=f"code {wanted.code}, as on the controller",
                got=f"{facts['code']} in {facts['tree']}",
                fix=_INSTALL,
            )
        ]
    return []


def _of_disk(facts: dict[str, Any]) -> list[str]:
    if facts["disk_denied"] and facts["code"]:
        return []  # a job writes nothing into a checkout that is there
    if facts["disk_problem"]:
        problem = f"{facts['disk']} cannot be written ({facts['disk_problem']})"
        return [error_line("", problem=problem, fix="Make it writable, or free disk space there")]
    if facts["free_bytes"] < _FREE_BYTES:
        free = f"{facts['free_bytes'] / 1e9:.1f} GB"
        expected = f"1 GB of free disk space at {facts['disk']}"
        fix = "Free disk space, or choose another folder with --tree DIR"
        return [error_line("", expected=expected, got=free, fix=fix)]
    return []


def unusable(facts: Mapping[str, Any], engines: Sequence[Engine]) -> str:
    """Return why a host's Python cannot run these engines; '' if it can."""
    packages = [one.package for one in engines if one.package]
    lacking = [f"it has no {package}" for package in packages if not facts.get(package)]
    return next(iter([*filter(None, [facts["python_problem"]]), *lacking]), "") if packages else ""


def installed_engines(found: Sequence[Mapping[str, Any]], device: str) -> tuple[Engine, ...]:
    """Return the engines that all hosts have for this kind of device.

    If there is none, those that any host has; without any, MXNet.
    """
    needs = Needs(spans=False, gpu=device == "gpu")
    having = {
        one: [bool(facts.get(one.package)) and not one.lacks(facts, needs) for facts in found]
        for one in ENGINES.values()
        if one.package
    }
    common = tuple(one for one, have in having.items() if have and all(have))
    return common or tuple(one for one, have in having.items() if any(have)) or (MXNET,)


def missing_packages(found: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the engines' packages that each host lacks and another one has."""
    packages = [one.package for one in ENGINES.values() if one.package]
    present = [name for name in packages if any(facts.get(name) for facts in found)]
    return [[name for name in present if not facts.get(name)] for facts in found]


def _of_engines(
    engines: Sequence[Engine], facts: dict[str, Any], device: str, *, local: bool
) -> list[str]:
    if why := unusable(facts, engines):
        names = " and ".join(facts.get("python_variables", []))
        lacking = [one.install for one in engines if not facts.get(one.package)]
        fix = lacking[-1] if local and lacking else _install(engines)
        fix = f"Remove {names} from the start-up file ({STARTUP})" if names else fix
        problem = f"the Python of {facts['tree']} cannot be used ({why})"
        return [error_line("", problem=problem, fix=fix)]
    return [one for engine in engines for one in _of_engine(engine, facts, device)]


def _install(engines: Sequence[Engine]) -> str:
    """Return the fix that installs these engines on hosts; MXNet needs no option."""
    if all(one is MXNET for one in engines):
        return _INSTALL
    names = ",".join(one.name for one in engines)
    return _INSTALL.replace("hosts.install", f"hosts.install --engine {names}")


def _of_engine(engine: Engine, facts: dict[str, Any], device: str) -> list[str]:
    if lack := engine.lacks(facts, Needs()):
        problem = f"{engine.software(facts)} was built without {lack}"
        return [error_line("", problem=problem, fix=_install([engine]))]
    if device != "gpu":
        return []
    if facts["gpu_problem"]:
        return [facts["gpu_problem"]]
    if not facts["gpus"]:
        fix = "Set device = 'cpu'"
        return [error_line("", expected="a GPU", got="none from the driver", fix=fix)]
    if found := [why for gpu in facts["gpus"] if (why := engine.no_code(gpu, facts))]:
        return found[:1]
    lack = engine.lacks(facts, Needs(gpu=True))
    problem = f"{engine.software(facts)} was built without {lack}"
    return [error_line("", problem=problem, fix=_install([engine]))] if lack else []


def value(examined: HostReport, name: str) -> str:
    """Return a fact as text, for the table and for comparison between hosts."""
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
    return str(facts.get(name) or "")


def compare_hosts(
    found: Sequence[HostReport], own: Mapping[str, str] = NOTHING
) -> list[HostReport]:
    """Add each host's differences from the controller, or else from most hosts.

    `own` has the controller's values, empty if one does not matter. Its code always counts, its
    versions only if a host has them too: equal hosts may differ from it. Different code or
    versions are a problem, other differences a note.
    """
    for name in (name for name in _ALIKE if own.get(name, True)):
        counts = Counter(value(one, name) for one in found if value(one, name))
        if own.get(name) in counts or (name == "code" and "code" in own):
            found = [_compared(one, name, own[name], "controller") for one in found]
        elif len(counts) > 1:
            (most, first), (_, second), *_ = counts.most_common()
            if first > second:
                found = [_compared(one, name, most, "most") for one in found]
            else:  # no value is the most frequent
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
        owners = [engine for engine in ENGINES.values() if engine.package == name]
        fix = _install(owners)
        problem = error_line("", problem=f"differs from {whom}: {difference}", fix=fix)
        return replace(one, differs=differs, problems=(problem,))
    if fact.required:
        return replace(one, differs=differs)
    return replace(one, differs=differs, notes=(*one.notes, difference))
