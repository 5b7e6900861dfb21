"""Declaration of a setting: a dataclass field of a part of a trial.

A setting is declared once, in its part. Validation, a worker's options and command lines, the
reference, speed-up baselines and comparisons derive from the declaration.
"""

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import MISSING, dataclass
from enum import Enum
from typing import Any, get_args, get_origin

from bench.errors import SpecError, error_line, quoted

# Above any meaningful number, and below the largest float.
_LARGEST = 1e30
# The largest whole number; fields that size something have a smaller limit of their own.
MOST = 10**12
_WORDS = {"int": "whole number", "float": "number", "str": "text", "bool": "true or false"}


class Role(Enum):
    """Whether a setting may differ from that of a baseline or of a compared point."""

    IDENTITY = "identity"  # must be equal in both cases
    SCALED = "scaled"  # may differ from the baseline: scaling changes it
    SERVERS = "servers"  # may differ from the baseline, unless both have servers
    MEASURING = "measuring"  # may differ in both: measuring time, and simulated times
    ORIGIN = "origin"  # may differ between two runs: engine, data paths, scatter


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The properties of a setting besides its type and default.

    help      one phrase, for --help and the reference
    metavar   placeholder of its value in --help
    unit      unit of its default in --help: 's'
    empty     meaning of an empty default in --help
    role      see `Role`
    stored    the name in sweeps, records and tables, if it differs from the attribute
    choices   the permitted values, if they are few
    least     the smallest permitted number
    most      the largest permitted number
    below     every number must be less than this
    flag      the worker's option; passed if the trial's mode is one of `modes`
    typed     the default of that option, if it differs
    unless    omit the option while the setting of this stored name has its default
    later     added later: a trial with the default keeps the key it had before
    sparse    records omit the default
    """

    help: str
    metavar: str = ""
    unit: str = ""
    empty: str = ""
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
    sparse: bool = False

    def problem(self, value: Any) -> str:
        """Return 'expected X, got Y' for an invalid value; '' for a valid one."""
        if self.choices and value not in self.choices:
            choices = f"one of {', '.join(self.choices)}"
            return error_line("", expected=choices, got=quoted(value))
        numbers = value if isinstance(value, tuple) else (value,)
        got = list(value) if isinstance(value, tuple) else value
        if self.least is not None and any(not one >= self.least for one in numbers):
            limit = f", below {self.below}" if self.below is not None else ""
            return error_line("", expected=f"{self.least} or more{limit}", got=got)
        if any(isinstance(one, float) and math.isinf(one) for one in numbers):
            return error_line("", expected="a finite number", got=got)
        if self.below is not None and any(not one < self.below for one in numbers):
            least = f"{self.least} or more, " if self.least is not None else ""
            return error_line("", expected=f"{least}below {self.below}", got=got)
        if self.most is not None and any(not one <= self.most for one in numbers):
            return error_line("", expected=f"{self.most} or fewer", got=got)
        return ""


def checked(name: str, kind: Any, value: Any) -> Any:
    """Convert a value to a field's type.

    Lists become tuples, and whole numbers become floats where the type is float. `kind` is bool,
    int, float, str, tuple[one of these, ...], or one of these or None. Raises SpecError with the
    field's name.
    """
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        if isinstance(value, list | tuple) and all(_is_a(item, part) for part in value):
            return tuple(
                _bounded(name, part if isinstance(part, item) else item(part)) for part in value
            )
        # The environment may hold secrets; an error line must not print them.
        got = f"a {type(value).__name__}" if name == "env" else quoted(value)
        raise SpecError(error_line(name, expected=f"a list of {_WORDS[item.__name__]}s", got=got))
    plain = get_args(kind)[0] if get_args(kind) else kind
    if value is None and kind != plain:
        return None
    if not _is_a(plain, value):
        a = "" if plain is bool else "a "
        number = type(value) is int or (isinstance(value, float) and not math.isnan(value))
        large = plain is float and number
        expected = f"{a}{_WORDS[plain.__name__]}{f' below {_LARGEST:g}' * large}"
        raise SpecError(error_line(name, expected=expected, got=quoted(value)))
    return _bounded(name, plain(value))


def _is_a(kind: Any, value: Any) -> bool:
    if kind is bool or isinstance(value, bool):
        return kind is bool and isinstance(value, bool)
    if kind is float:
        return isinstance(value, int | float) and abs(value) < _LARGEST
    return isinstance(value, kind)


def _bounded(name: str, value: Any) -> Any:
    """Return the value; SpecError for a whole number above `MOST`."""
    if isinstance(value, int) and abs(value) > MOST:
        raise SpecError(
            error_line(name, expected=f"a whole number up to {MOST}", got=quoted(value))
        )
    return value


def setting(help_text: str, default: Any = MISSING, **known: Any) -> Any:
    """Declare a field of a part.

    Without a default it is required or derived from others.
    """
    known = {"setting": Setting(help=help_text, **known)}
    return dataclasses.field(default=default, metadata=known)


@dataclass(frozen=True, kw_only=True)
class Field:
    """A setting by its stored name; `path` is its attribute path: 'model.network'."""

    name: str
    path: str
    type: Any
    default: Any
    setting: Setting

    @property
    def part(self) -> str:
        """The part that holds it; '' for a setting of the trial itself."""
        return self.path.rpartition(".")[0]

    @property
    def option(self) -> str:
        """The argparse name of the worker's option; '' if it has none."""
        return self.setting.flag.lstrip("-").replace("-", "_")


def fields_of(part: type, name: str = "") -> Iterator[Field]:
    """Yield the settings of a part that the trial holds as attribute `name`."""
    for field in dataclasses.fields(part):
        if known := field.metadata.get("setting"):
            yield Field(
                name=known.stored or field.name,
                path=f"{name}.{field.name}" if name else field.name,
                type=field.type,
                default=field.default,
                setting=known,
            )
