"""What the hosts of a run were, by its environment.json, and in what they were not alike."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# What differs between any two hosts, or from one moment to the next.
_OF_ONE = frozenset(
    {
        *("hostname", "machine", "addresses", "reached", "master", "holder", "time", "load", "say"),
        *("others", "available_mib", "free_bytes", "clock_skew", "user", "gpu_processes", "disk"),
        *("tree", "shell", "login_shell", "libraries"),
    }
)


@dataclass(frozen=True, kw_only=True)
class Fact:
    """Something that was found on hosts: what most have, and which have something else."""

    name: str
    most: str
    others: dict[str, str]


def facts(hosts: Mapping[str, Mapping[str, Any]]) -> list[Fact]:
    """Every fact that hosts can have alike, in the order in which they tell them.

    A host that does not tell one counts as one that has nothing there.
    """
    told = {name: _flat(found) for name, found in hosts.items()}
    names = dict.fromkeys(key for found in told.values() for key in found)
    return [
        _fact(name, {host: found.get(name, "") for host, found in told.items()}) for name in names
    ]


def _fact(name: str, values: Mapping[str, str]) -> Fact:
    most, _ = Counter(values.values()).most_common(1)[0]
    others = {host: value for host, value in values.items() if value != most}
    return Fact(name=name, most=most, others=others)


def _flat(found: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Its facts as text, those within others by both names: 'opencv version'."""
    flat: dict[str, str] = {}
    for name, value in found.items():
        if not before and name in _OF_ONE:
            continue
        if isinstance(value, dict):
            flat |= _flat(value, f"{before}{name} ")
        else:
            flat[before + name] = _text(value)
    return flat


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, dict):
        return " ".join(map(str, value.values()))
    return str(value)
