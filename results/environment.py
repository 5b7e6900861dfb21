"""The environment of a run as it is read: facts of its machines, of the kinds that tables need."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bench.errors import quoted
from bench.secrets import command_line, masked, masked_word
from results.errors import StoreError
from results.store import read_json

NAME = "environment.json"
_TEXTS = ("description", "date", "commit", "system", "processor", "source", "imported")
_HIDDEN = frozenset({"description", "points", "repeats", "hosts", "order"})


def environment_of(folder: Path) -> dict[str, Any]:
    """What environment.json says, nothing where there is none.

    Raises StoreError naming the fact where it is not what is written there.
    """
    found: dict[str, Any] = read_json(folder, NAME, {})
    for name in _TEXTS:
        _check(folder, name, found.get(name), str)
    if not _of_texts(found.get("command", [])):
        raise _odd(folder, "command", found["command"])
    hosts = found.get("hosts")
    _check(folder, "hosts", hosts, dict)
    for host, facts in (hosts or {}).items():
        if not isinstance(facts, dict):
            raise _odd(folder, f"hosts: {quoted(host)}", facts)
        for fact, fits in _OF_HOST.items():
            if fact in facts and not fits(facts[fact]):
                raise _odd(folder, f"hosts: {quoted(host)}: {fact}", facts[fact])
        _mask(facts)
    _mask(found)
    if "command" in found:
        found["command"] = list(map(masked_word, found["command"]))
    return found


def _mask(facts: dict[str, Any]) -> None:
    """Masks secrets among the variables of a machine, which earlier versions recorded."""
    variables = facts.get("variables")
    if isinstance(variables, dict):
        facts["variables"] = masked(variables)


def shown(environment: Mapping[str, Any]) -> dict[str, Any]:
    """What a report shows of it besides the hosts; the command as one line."""
    found = {name: value for name, value in environment.items() if name not in _HIDDEN}
    return found | ({"command": command_line(found["command"])} if found.get("command") else {})


def _check(folder: Path, name: str, value: object, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        raise _odd(folder, name, value)


def _odd(folder: Path, name: str, value: object) -> StoreError:
    return StoreError(f"{folder / NAME}: {name} is not as it is written: {quoted(value)}")


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _of_dicts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and -1e15 < value < 1e15


# What tables count or add up; of all else they print what is there.
_OF_HOST: dict[str, Callable[[object], bool]] = {
    "cores": _is_list,
    "gpus": _of_dicts,
    "memory_mib": _is_number,
}
