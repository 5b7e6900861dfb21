"""Declaration of a setting: a dataclass field of one part of a trial, and what is known of it."""

import dataclasses
from collections.abc import Iterator
from dataclasses import MISSING, dataclass
from typing import Any

_STORED = "stored"


def setting(default: Any = MISSING, *, stored: str = "") -> Any:
    """A field of a part.

    default  its value if a sweep gives none; a field without one is required or derived
    stored   its name in sweeps, records and tables, if that is not the attribute's
    """
    return dataclasses.field(default=default, metadata={_STORED: stored})


@dataclass(frozen=True, kw_only=True)
class Field:
    """A setting by its stored name; `path` leads to it from the trial: 'model.network'."""

    name: str
    path: str
    type: Any
    default: Any


def fields_of(part: type, name: str = "") -> Iterator[Field]:
    """The settings of a part, which the trial has under `name`."""
    for field in dataclasses.fields(part):
        if _STORED in field.metadata:
            yield Field(
                name=field.metadata[_STORED] or field.name,
                path=f"{name}.{field.name}" if name else field.name,
                type=field.type,
                default=field.default,
            )
