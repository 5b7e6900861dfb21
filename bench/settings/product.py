"""The product of a sweep's lists, and the combinations that it excludes.

Any field of a table may hold a list of values; a field whose value is a list may hold a list of
lists. `devices` may be a series, and any field a table by network.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass
from typing import Any, get_origin

from bench.errors import SpecError, error_line, is_whole, quoted
from bench.networks import describe, named
from bench.settings.declaration import checked
from bench.trial import FIELDS, make

Fields = dict[str, Any]
MOST_POINTS = 10_000
# The network decides which values of a table by network apply, so its lists are expanded first.
_NETWORK = ("network", "num_layers")
# The other outermost lists, as in every sweep file; `devices` is the innermost one.
_OUTER = ("kvstore", "mode")


def series(value: Any) -> list[int]:
    """Parse device counts: 4, [1, 2, 4] or "1..6", which means 1, 2, 4, 6."""
    counts = value if isinstance(value, list) else [value]
    if isinstance(value, str):
        first, dots, last = value.partition("..")
        if not (dots and is_whole(first) and is_whole(last) and 1 <= int(first) <= int(last)):
            raise SpecError(
                error_line("devices", expected="a series such as '1..256'", got=quoted(value))
            )
        counts, count = [], int(first)
        while count < int(last):
            counts.append(count)
            count *= 2
        counts.append(int(last))
    if not counts or not all(isinstance(n, int) and not isinstance(n, bool) for n in counts):
        raise SpecError(error_line("devices", expected="whole numbers", got=quoted(value)))
    return counts


def values(name: str, value: Any) -> list[Any]:
    """Return the values of a field: those of its list, or the one that it has.

    A field whose value is a list has several values only if it holds a list of lists.
    """
    if name == "devices":
        return series(value)
    listed = value if isinstance(value, list) else [value]
    if get_origin(FIELDS[name].type) is tuple:
        several = bool(listed) and all(isinstance(one, list) for one in listed)
        return listed if several else [value]
    if not listed:
        raise SpecError(error_line(name, expected="at least one value", got="an empty list"))
    return listed


@dataclass(frozen=True, kw_only=True)
class Product:
    """All combinations of the lists of one network's fields.

    fixed  the fields with one value
    lists  those with several, outermost first
    """

    fixed: Fields
    lists: dict[str, list[Any]]

    @property
    def size(self) -> int:
        """Number of combinations."""
        return math.prod(map(len, self.lists.values()))

    def combinations(self) -> Iterator[Fields]:
        """Yield the fields of each combination; the last list varies fastest."""
        for one in itertools.product(*self.lists.values()):
            yield self.fixed | dict(zip(self.lists, one, strict=True))


def products(fields: Mapping[str, Any]) -> list[Product]:
    """Return the product of each network of a table; SpecError for an invalid list."""
    outer = {name: values(name, fields[name]) for name in _NETWORK if name in fields}
    counts = {name: len(some) for name, some in outer.items()}
    _check_count(math.prod(counts.values()), counts)
    return [
        _product(_of_network({**fields, **dict(zip(outer, one, strict=True))}))
        for one in itertools.product(*outer.values())
    ]


def _product(fields: Fields) -> Product:
    found = {name: values(name, value) for name, value in fields.items()}
    if "devices" in found:
        fields.setdefault("devices_per_host", max(found["devices"]))
    several = [name for name, some in found.items() if len(some) > 1]
    names = [
        *(name for name in _OUTER if name in several),
        *(name for name in several if name not in (*_OUTER, "devices")),
        *(name for name in ("devices",) if name in several),
    ]
    alone = {name: some[0] for name, some in found.items() if len(some) == 1}
    return Product(fixed=fields | alone, lists={name: found[name] for name in names})


def _of_network(fields: Fields) -> Fields:
    """Resolve network names and look up tables by network."""
    label = ""
    if "network" in fields:
        if not isinstance(fields["network"], str):
            raise SpecError(error_line("network", expected="a name", got=quoted(fields["network"])))
        family, layers = named(fields["network"])
        fields["network"] = family
        given = checked("num_layers", FIELDS["num_layers"].type, fields.get("num_layers"))
        fields["num_layers"] = layers if given is None else given
        label = describe(family, fields["num_layers"])
    tables = {name: value for name, value in fields.items() if isinstance(value, dict)}
    if "env" in tables and label not in tables["env"] and not _has_network(tables["env"]):
        # Its values may be secrets.
        fix = "Write env = ['NAME=VALUE']"
        raise SpecError(error_line("env", expected="a list of texts", got="a table", fix=fix))
    if missing := [name for name, table in tables.items() if label not in table]:
        raise SpecError(
            error_line(
                ", ".join(missing),
                expected=f"an entry for network {quoted(label)}",
                got="none",
                fix=f"Add it to the table{'s' * (len(missing) > 1)}",
            )
        )
    return fields | {name: table[label] for name, table in tables.items()}


def _has_network(names: Iterable[str]) -> bool:
    for name in names:
        with suppress(SpecError):
            named(name)
            return True
    return False


def check_size(found: Sequence[Product], before: int, variants: int) -> None:
    """Raise SpecError if these products have too many points.

    before    number of points of the tables before
    variants  number of variants among the products
    """
    largest = max(found, key=lambda one: one.size)
    counts = {name: len(some) for name, some in largest.lists.items()}
    networks = len(found) // variants
    size = before + sum(one.size for one in found)
    _check_count(size, {"networks": networks, "variants": variants} | counts)


def _check_count(size: int, factors: Mapping[str, int]) -> None:
    if size <= MOST_POINTS:
        return
    text = " x ".join(f"{name} {count}" for name, count in factors.items() if count > 1)
    raise SpecError(
        error_line(
            "points",
            expected=f"{MOST_POINTS} or fewer",
            got=f"{size}{f' ({text})' if text else ''}",
            fix="Shorten a list, or split the sweep",
        )
    )


@dataclass(frozen=True, kw_only=True)
class Exclusion:
    """A combination of values that a sweep leaves out, by stored name of the field."""

    wanted: Mapping[str, tuple[Any, ...]]

    def matches(self, fields: Fields) -> bool:
        """Return whether the fields of a combination have all of its values.

        A value that follows from others is compared last, because only a valid point has it.
        """
        known = {name: some for name, some in self.wanted.items() if _is_known(name, fields)}
        derived = [name for name in self.wanted if name not in known]
        if not all(_has(fields, name, some) for name, some in known.items()):
            return False
        return not derived or all(_has(make(fields).fields, n, self.wanted[n]) for n in derived)


def exclusions(tables: Any) -> list[Exclusion]:
    """Parse `exclude`, a list of tables FIELD = VALUE or list of values."""
    if not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        expected, fix = "a list of tables", "Write exclude = [{ kvstore = 'local' }]"
        raise SpecError(error_line("exclude", expected=expected, got=quoted(tables), fix=fix))
    return [_exclusion(number, table) for number, table in enumerate(tables, 1)]


def _exclusion(number: int, table: Fields) -> Exclusion:
    where, fix = f"exclude {number}", "See docs/reference/sweep-file.md"
    unknown_fields = [name for name in table if name not in FIELDS]
    if not table or unknown_fields:
        got = f"field {quoted(unknown_fields[0])}" if table else "an empty table"
        raise SpecError(error_line(where, expected="fields of points", got=got, fix=fix))
    try:
        wanted = {
            name: tuple(_comparable(name, one) for one in values(name, value))
            for name, value in table.items()
        }
    except SpecError as error:
        raise SpecError(error_line(where, problem=str(error))) from error
    return Exclusion(wanted=wanted)


def _comparable(name: str, value: Any) -> Any:
    if name == "network" and isinstance(value, str):
        named(value)
    return checked(name, FIELDS[name].type, value)


def _is_known(name: str, fields: Fields) -> bool:
    return name in fields or FIELDS[name].default is not MISSING


def _has(fields: Fields, name: str, wanted: Sequence[Any]) -> bool:
    """Return whether a field has one of these values; a network also by its full name."""
    value = fields[name] if name in fields else FIELDS[name].default
    names = [describe(value, fields.get("num_layers"))] if name == "network" else []
    return any(one in wanted for one in (checked(name, FIELDS[name].type, value), *names))
