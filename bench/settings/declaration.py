"""Declaration of a setting: a dataclass field of a part of a trial, with all that is known of it.

Validation, a worker's options and command lines, the reference, speed-up baselines and comparisons
are made from it: a new setting is declared once, in its part.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import MISSING, dataclass
from enum import Enum
from typing import Any, get_args, get_origin

from bench.errors import SpecError, quoted

# Above any number that means something here, and below where floats end.
_LARGEST = 1e30
# Of a whole number; fields that decide how much is made have a smaller one of their own.
MOST = 10**12
_WORDS = {"int": "whole number", "float": "number", "str": "text", "bool": "true or false"}


class Role(Enum):
    """In which settings a point may differ from its baseline, and two points that are compared."""

    IDENTITY = "identity"  # in neither
    SCALED = "scaled"  # from its baseline: what scaling changes
    SERVERS = "servers"  # from its baseline, unless both have servers
    MEASURING = "measuring"  # in both: how long it was measured, and what a rehearsal plays
    ORIGIN = "origin"  # points of two runs: the engine, where its data lie, its scatter


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What is known of a setting besides its type and default.

    help      one line, for --help and the reference
    role      see `Role`
    stored    its name in sweeps, records and tables, if that is not the attribute's
    choices   its values, if there are few
    least     no number may be less
    most      no number may be more
    below     every number must be less
    flag      the worker's option, which has the value if its mode is one of `modes`
    typed     the default of that option, if it is another
    unless    without the option while the setting of this stored name has its default
    later     came after others: a trial that has the default keeps the key that it had without
    """

    help: str
    role: Role = Role.IDENTITY
    stored: str = ""
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    below: float | None = None
    flag: str = ""
    typed: Any = ...
    modes: tuple[str, ...] = ("synthetic", "real", "test-io", "bandwidth")
    unless: str = ""
    later: bool = False

    def problem(self, value: Any) -> str:
        """What was expected instead of this value; empty if it may be."""
        if self.choices and value not in self.choices:
            return f"expected one of {', '.join(self.choices)}, got {quoted(value)}"
        numbers = value if isinstance(value, tuple) else (value,)
        if self.least is not None and any(not one >= self.least for one in numbers):
            limit = f", below {self.below}" if self.below is not None else ""
            return f"expected {self.least} or more{limit}, got {value}"
        if self.below is not None and any(not one < self.below for one in numbers):
            least = f"{self.least} or more, " if self.least is not None else ""
            return f"expected {least}below {self.below}, got {value}"
        if self.most is not None and any(not one <= self.most for one in numbers):
            return f"expected {self.most} or fewer, got {value}"
        return ""


def checked(name: str, kind: Any, value: Any) -> Any:
    """The value as a field of this type holds it: lists become tuples, floats of whole numbers.

    `kind` is bool, int, float, str, tuple[one of these, ...] or one of these or None. Raises
    SpecError naming the field.
    """
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        if isinstance(value, list | tuple) and all(_is_a(item, part) for part in value):
            return tuple(
                _bounded(name, part if isinstance(part, item) else item(part)) for part in value
            )
        # An environment may hold secrets, which an error line does not show.
        got = f"a {type(value).__name__}" if name == "env" else quoted(value)
        raise SpecError(f"{name}: expected a list of {_WORDS[item.__name__]}s, got {got}")
    plain = get_args(kind)[0] if get_args(kind) else kind
    if value is None and kind != plain:
        return None
    if not _is_a(plain, value):
        a = "" if plain is bool else "a "
        raise SpecError(f"{name}: expected {a}{_WORDS[plain.__name__]}, got {quoted(value)}")
    return _bounded(name, plain(value))


def _is_a(kind: Any, value: Any) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    if kind is float:
        return isinstance(value, int | float) and abs(value) < _LARGEST
    return isinstance(value, kind)


def _bounded(name: str, value: Any) -> Any:
    """The value; SpecError for a whole number that nothing has so many of."""
    if isinstance(value, int) and abs(value) > MOST:
        raise SpecError(f"{name}: expected a whole number up to {MOST}, got {quoted(value)}")
    return value


def setting(help_text: str, default: Any = MISSING, **known: Any) -> Any:
    """A field of a part; without a default it is required or follows from others."""
    known = {"setting": Setting(help=help_text, **known)}
    return dataclasses.field(default=default, metadata=known)


@dataclass(frozen=True, kw_only=True)
class Field:
    """A setting by its stored name; `path` leads to it from the trial: 'model.network'."""

    name: str
    path: str
    type: Any
    default: Any
    setting: Setting

    @property
    def part(self) -> str:
        """The part that it belongs to; empty for what belongs to the trial itself."""
        return self.path.rpartition(".")[0]

    @property
    def option(self) -> str:
        """The name that argparse has for the worker's option; empty if there is none."""
        return self.setting.flag.lstrip("-").replace("-", "_")


def fields_of(part: type, name: str = "") -> Iterator[Field]:
    """The settings of a part, which the trial has under `name`."""
    for field in dataclasses.fields(part):
        if known := field.metadata.get("setting"):
            yield Field(
                name=known.stored or field.name,
                path=f"{name}.{field.name}" if name else field.name,
                type=field.type,
                default=field.default,
                setting=known,
            )
