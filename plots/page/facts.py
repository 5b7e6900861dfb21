"""Tables of the environment: one fact per row, one column per host."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from plots.fact_labels import fact_label, fact_value, own_facts
from results.host_facts import HOST_FACTS, Place, omitted
from results.run import shown_environment

# More columns are unreadable; environment.json has all hosts.
MOST_HOSTS = 24
_HIDDEN = omitted(HOST_FACTS, Place.REPORT)


@dataclass(frozen=True, kw_only=True)
class HostTable:
    """The facts that the preflight check found on the hosts.

    names      hosts shown in `differing`
    more       number of further hosts that are not shown
    differing  fact, its value on each shown host, and its rarer values
    alike      fact, and the value that all hosts share
    """

    names: tuple[str, ...]
    more: int
    differing: tuple[tuple[str, tuple[str, ...], frozenset[str]], ...]
    alike: tuple[tuple[str, str], ...]


def environment_facts(environment: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the facts about the controller's machine as (name, text) pairs."""
    return [(name, text) for name, text in _flat(shown_environment(environment)) if text]


def host_table(environment: Mapping[str, Any]) -> HostTable | None:
    """Split the hosts' facts into differing and equal; None without host facts."""
    found = environment.get("hosts")
    if not isinstance(found, dict) or not found:
        return None
    found = own_facts(environment, found)
    facts = {
        host: dict(_flat({name: value for name, value in one.items() if name not in _HIDDEN}))
        for host, one in found.items()
    }
    every = list(dict.fromkeys(fact for one in facts.values() for fact in one))
    values = {fact: [one.get(fact, "") for one in facts.values()] for fact in every}
    differing = []
    for fact in every:
        counts = Counter(values[fact])
        if len(counts) > 1:
            rare = frozenset(one for one in counts if counts[one] < max(counts.values()))
            differing.append((fact, tuple(values[fact][:MOST_HOSTS]), rare))
    return HostTable(
        names=tuple(facts)[:MOST_HOSTS],
        more=max(0, len(facts) - MOST_HOSTS),
        differing=tuple(differing),
        alike=tuple(
            (fact, some[0]) for fact, some in values.items() if len(set(some)) == 1 and some[0]
        ),
    )


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Flatten facts to (label, text), e.g. 'GPU 0 name'; a list of scalars is one."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            text = None if name else fact_value(key, inner)
            label = f"{name} {key}" if name else fact_label(key)
            yield from [(label, text)] if text else _flat(inner, label)
    elif isinstance(value, list) and any(isinstance(one, list | dict) for one in value):
        for place, inner in enumerate(value):
            yield from _flat(inner, f"{name} {place}".strip())
    else:
        yield name or "value", _text(value)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
