"""What a record ran with besides its trial: environment variables and instructions."""

from collections.abc import Mapping, Sequence

from results.record import BareRecord

_MOST_NAMED = 3


def conditions(record: BareRecord) -> dict[str, str]:
    """What the first rank said of them, by name."""
    facts = record.ranks[0].facts if record.ranks else {}
    variables = facts.get("variables")
    told = dict(variables) if isinstance(variables, dict) else {}
    if facts.get("instructions"):
        told["instructions"] = facts["instructions"]
    return {name: str(value) for name, value in told.items()}


def differences(found: Sequence[Mapping[str, str]]) -> str:
    """What was not the same for all: 'OMP_WAIT_POLICY (active or unset)'; empty where all was."""
    told = []
    for name in sorted({name for one in found for name in one}):
        values = list(dict.fromkeys(one.get(name, "unset") for one in found))
        if len(values) > 1:
            told.append(f"{name} ({' or '.join(values)})")
    more = [f"{len(told) - _MOST_NAMED} more"] if len(told) > _MOST_NAMED else []
    return ", ".join(told[:_MOST_NAMED] + more)
