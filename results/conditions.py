"""What a record ran with besides its trial: environment variables and instructions."""

from collections.abc import Mapping, Sequence

from bench.secrets import masked
from results.record import BareRecord


def conditions(record: BareRecord) -> dict[str, str]:
    """What the first rank said of them, by name."""
    facts = record.ranks[0].facts if record.ranks else {}
    variables = facts.get("variables")
    told = masked(variables) if isinstance(variables, dict) else {}
    if facts.get("instructions"):
        told["instructions"] = facts["instructions"]
    return {name: str(value) for name, value in told.items()}


def differences(found: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """The values of what was not the same for all, by name."""
    names = sorted({name for one in found for name in one})
    values = {name: list(dict.fromkeys(one.get(name, "unset") for one in found)) for name in names}
    return {name: some for name, some in values.items() if len(some) > 1}
