"""Differences of two runs or hosts besides throughput, and which matter.

Machines, libraries, data, variables and instructions decide how fast the same code is: runs that
differ in one of them say nothing of each other unless that is what is asked. Another commit is what
a comparison is usually for, and a kernel's version changes under everyone's hands: they are told.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from results.host_facts import CONTROLLER_FACTS, HOST_FACTS, Place, omitted
from results.repeat import RepeatSummary
from results.run import Run
from results.scaling import ScalingRow

_OF_ONE = omitted(HOST_FACTS, Place.HOSTS)


@dataclass(frozen=True, kw_only=True)
class FactDifference:
    """Something that was found on hosts: what most have, and which have something else."""

    name: str
    most: str
    others: dict[str, str]


def host_facts(hosts: Mapping[str, Mapping[str, Any]]) -> list[FactDifference]:
    """Every fact that hosts can have alike, in the order in which they tell them.

    A host that does not tell one counts as one that has nothing there.
    """
    told = {name: _flat(found) for name, found in hosts.items()}
    differences = []
    for name in dict.fromkeys(key for found in told.values() for key in found):
        values = {host: found.get(name, "") for host, found in told.items()}
        most, _ = Counter(values.values()).most_common(1)[0]
        others = {host: value for host, value in values.items() if value != most}
        differences.append(FactDifference(name=name, most=most, others=others))
    return differences


def _flat(found: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Its facts as text, those within others by both names: 'opencv version'."""
    flat: dict[str, str] = {}
    for name, value in found.items():
        if not before and name in _OF_ONE:
            continue
        if isinstance(value, dict):
            flat |= _flat(value, f"{before}{name} ")
        else:
            flat[before + name] = _fact_text(value)
    return flat


def _fact_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_fact_text, value))
    if isinstance(value, dict):
        return " ".join(map(str, value.values()))
    return str(value)


Pairs = Sequence[tuple[ScalingRow, ScalingRow]]


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Something that is not the same in two runs; '' where a run does not tell it.

    matters   whether rates can no longer be compared for it; what one run does not tell does not
    """

    name: str
    a: str
    b: str
    matters: bool

    def __str__(self) -> str:
        return f"{self.name} ({self.a or 'not told'} / {self.b or 'not told'})"


def run_differences(a: Run, b: Run, pairs: Pairs) -> tuple[Difference, ...]:
    """What differs between the environments of the runs and between the points that are compared.

    What matters comes first.
    """
    found = list(_between(_environment(a), _environment(b), matter=True))
    found += _between(_controller(a, matters=False), _controller(b, matters=False), matter=False)
    for name, of in _POINT.items():
        found += [
            one
            for point, other in pairs
            for one in _between({name: of(point)}, {name: of(other)}, matter=name != "code")
        ]
    for point, other in pairs:
        found += _between(_conditions(point), _conditions(other), matter=True, unset="unset")
    return tuple(sorted(dict.fromkeys(found), key=lambda one: not one.matters))


def _between(
    a: Mapping[str, str], b: Mapping[str, str], *, matter: bool, unset: str = ""
) -> Iterator[Difference]:
    if unset and not (a and b):  # records of before tell no conditions at all
        return
    for what in dict.fromkeys([*a, *b]):
        one, other = a.get(what) or unset, b.get(what) or unset
        if one != other:
            yield Difference(name=what, a=one, b=other, matters=matter and bool(one and other))


def _environment(run: Run) -> dict[str, str]:
    """What matters of the machines and their software."""
    found = _controller(run, matters=True)
    hosts = run.environment.get("hosts")
    facts = list(hosts.values()) if isinstance(hosts, dict) else []
    for fact in HOST_FACTS:
        if text := fact.text:
            # Kinds, not counts: how many hosts a point takes is a setting of its trial.
            name = fact.name
            kinds = {text(one[name]) for one in facts if isinstance(one, dict) and one.get(name)}
            found[f"hosts' {fact.title}"] = " or ".join(sorted(kinds))
    return found


def _controller(run: Run, *, matters: bool) -> dict[str, str]:
    return {
        fact.title: fact.text(run.environment.get(fact.name))
        for fact in CONTROLLER_FACTS
        if fact.text and fact.matters == matters
    }


def _values(row: ScalingRow, of: Callable[[RepeatSummary], Any]) -> str:
    return " or ".join(sorted({str(of(one) or "") for one in row.repeats} - {""}))


_POINT: dict[str, Callable[[ScalingRow], str]] = {
    "measured by": lambda row: (
        _values(row, lambda one: one.source)
        or ("the fake engine, scripted" if row.trial.engine == "fake" else "mxscale")
    ),
    "devices are": lambda row: "emulated" if row.emulated else "real",
    "data": lambda row: _values(row, lambda one: one.identity.data_manifest),
    "MXNet build": lambda row: _values(row, lambda one: one.facts.get("mxnet_digest")),
    "code": lambda row: _values(row, lambda one: one.identity.code_hash),
}


def _conditions(row: ScalingRow) -> dict[str, str]:
    """Variables and instructions of all repeats, by name; empty where none tells them."""
    told = [one.conditions for one in row.repeats if "variables" in one.facts]
    names = {name for one in told for name in one}
    return {
        name: " or ".join(sorted({one.get(name, "unset") for one in told}))
        for name in sorted(names)
    }
