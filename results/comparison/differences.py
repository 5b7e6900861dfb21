"""Differences of two runs or hosts besides throughput, and which matter.

Runs with different machines, libraries, data, environment variables or CPU instructions are not
comparable, unless that difference is the question. The commit and the kernel version do not
matter: a comparison usually compares commits, and kernels are updated often. They are listed.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from results.comparison.pairs import Pairs, setting_changes
from results.host_facts import CONTROLLER_FACTS, HOST_FACTS, Place, omitted
from results.repeat import RepeatSummary
from results.run import Run
from results.scaling import ScalingRow

_OF_ONE = omitted(HOST_FACTS, Place.HOSTS)


@dataclass(frozen=True, kw_only=True)
class FactDifference:
    """A fact of hosts: the value of most hosts, and the hosts with another value."""

    name: str
    most: str
    others: dict[str, str]


def host_facts(hosts: Mapping[str, Mapping[str, Any]]) -> list[FactDifference]:
    """Return every fact that hosts can share, in the order of their reports.

    A host that does not report a fact has an empty value there.
    """
    reported = {name: _flat(found) for name, found in hosts.items()}
    differences = []
    for name in dict.fromkeys(key for found in reported.values() for key in found):
        values = {host: found.get(name, "") for host, found in reported.items()}
        most, _ = Counter(values.values()).most_common(1)[0]
        others = {host: value for host, value in values.items() if value != most}
        differences.append(FactDifference(name=name, most=most, others=others))
    return differences


def _flat(found: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Return the facts as text; nested facts have both names: 'opencv version'."""
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
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_fact_text, value))
    if isinstance(value, dict):
        return " ".join(map(_fact_text, value.values()))
    return str(value)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A fact that differs in two runs; '' if a run did not record it.

    matters   whether it makes the runs not comparable; a fact that one run lacks does not
    """

    name: str
    a: str
    b: str
    matters: bool

    def __str__(self) -> str:
        return f"{self.name} ({self.a or 'not recorded'} / {self.b or 'not recorded'})"


def run_differences(a: Run, b: Run, pairs: Pairs) -> tuple[Difference, ...]:
    """Return the differences of the runs' environments and of the compared points.

    Differences that matter come first. Variables that the points set differently are settings.
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
        asked = {one.name for one in setting_changes(point.trial, other.trial)}
        conditions = (
            {name: value for name, value in _conditions(row).items() if name not in asked}
            for row in (point, other)
        )
        found += _between(*conditions, matter=True, unset="unset")
    return tuple(sorted(dict.fromkeys(found), key=lambda one: not one.matters))


def _between(
    a: Mapping[str, str], b: Mapping[str, str], *, matter: bool, unset: str = ""
) -> Iterator[Difference]:
    if unset and not (a and b):  # older records have no conditions
        return
    for name in dict.fromkeys([*a, *b]):
        one, other = a.get(name) or unset, b.get(name) or unset
        if one != other:
            yield Difference(name=name, a=one, b=other, matters=matter and bool(one and other))


def _environment(run: Run) -> dict[str, str]:
    """Return the facts of machines and software that matter."""
    found = _controller(run, matters=True)
    hosts = run.environment.get("hosts")
    facts = list(hosts.values()) if isinstance(hosts, dict) else []
    for fact in HOST_FACTS:
        if text := fact.text:
            # Distinct values, not counts: the number of hosts is a setting of the trial.
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
        or ("the simulated engine" if row.trial.scripted else "mxscale")
    ),
    "devices": lambda row: "oversubscribed" if row.emulated else "real",
    "data": lambda row: _values(row, lambda one: one.identity.data_manifest),
    "MXNet build": lambda row: _values(row, lambda one: one.facts.get("mxnet_digest")),
    "code": lambda row: _values(row, lambda one: one.identity.code_hash),
}


def _conditions(row: ScalingRow) -> dict[str, str]:
    """Return environment variables and CPU instructions of all repeats, if recorded."""
    recorded = [one.conditions for one in row.repeats if "variables" in one.facts]
    names = {name for one in recorded for name in one}
    return {
        name: " or ".join(sorted({one.get(name, "unset") for one in recorded}))
        for name in sorted(names)
    }
