"""Facts of machines as readers see them: labels and values with units."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from results.host_facts import CONTROLLER_FACTS, HOST_FACTS

# Labels of reports that differ from those of messages, and of facts that have none there.
_LABELS = {
    **{fact.name: fact.label for fact in (*HOST_FACTS, *CONTROLLER_FACTS) if fact.label},
    "architecture": "architecture",
    "code": "hash of mxscale's code",
    "command": "command",
    "data": "hash of the data",
    "date": "date",
    "dist_kvstore": "MXNet with distributed kvstores",
    "cuda": "MXNet with CUDA",
    "fabric": "Fabric",
    "features": "MXNet features",
    "gpus": "GPU",
    "imported": "imported",
    "source": "source",
    "system": "operating system",
    "torch_archs": "GPU architectures of PyTorch",
}


def fact_label(name: str) -> str:
    """Return the label of a fact by its stored name: 'memory' for 'memory_mib'."""
    return _LABELS.get(name, name.replace("_", " "))


def fact_value(name: str, value: Any) -> str | None:
    """Return the value of a fact that has a unit or a form of its own; else None."""
    if name == "memory_mib" and isinstance(value, int | float):
        return f"{value / 1024:.0f} GiB"
    if name == "memory_gib" and isinstance(value, int | float):
        return f"{value:g} GiB"
    if name == "data" and isinstance(value, Mapping):
        return "; ".join(f"{point}: {digest}" for point, digest in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "cores" and isinstance(value, list) and all(isinstance(one, int) for one in value):
        return _numbered(value)
    return None


def _numbered(numbers: Sequence[int]) -> str:
    """Return '5 (numbers 0 to 3 and 8)' for 0, 1, 2, 3, 8."""
    if not numbers:
        return "0"
    parts = list(_ranges(numbers))
    listed = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
    return f"{len(numbers)} (number{'s' if len(numbers) > 1 else ''} {listed})"


def _ranges(numbers: Sequence[int]) -> Iterator[str]:
    """Yield '0 to 3', '8' for 0, 1, 2, 3, 8."""
    begin = numbers[0]
    for place, number in enumerate(numbers):
        if numbers[place + 1 : place + 2] != [number + 1]:
            joined = " and " if number == begin + 1 else " to "
            yield str(number) if begin == number else f"{begin}{joined}{number}"
            begin = next(iter(numbers[place + 1 : place + 2]), 0)


def own_facts(
    environment: Mapping[str, Any], hosts: Mapping[str, Mapping[str, Any]]
) -> dict[str, Mapping[str, Any]]:
    """Return the hosts' facts; of a single host, only those that the controller lacks.

    A run on one machine has most facts twice, and a report lists them once.
    """
    if len(hosts) != 1:
        return dict(hosts)
    listed = {_key(name, value) for name, value in environment.items()}
    return {
        host: {name: value for name, value in facts.items() if _key(name, value) not in listed}
        for host, facts in hosts.items()
    }


def _key(name: str, value: Any) -> tuple[str, str]:
    """Return label and text; of the cores only their count, as the controller has it."""
    if name == "cores" and isinstance(value, list):
        value = len(value)
    return fact_label(name), fact_value(name, value) or str(value)
