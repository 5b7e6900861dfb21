"""Prices per host and hour, from the user's price file."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from bench.errors import SpecError, error_line, quoted, toml_error, unknown
from bench.settings.declaration import checked

_KEYS: tuple[Literal["host", "gpu", "processor"], ...] = ("host", "gpu", "processor")
_FIELDS = (*_KEYS, "per_hour", "currency")
# A name with one of these is a pattern.
_WILD = frozenset("*?[")


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """The facts of a host that prices match: its name, GPUs and processor, if known."""

    host: str
    gpus: tuple[str, ...] = ()
    processor: str = ""

    @property
    def described(self) -> str:
        """The host with the names that a price can match."""
        gpu = f"gpu {self.gpus[0]}" if self.gpus else ""
        processor = f"processor {self.processor}" if self.processor else ""
        known = ", ".join(filter(None, (gpu, processor)))
        return f"{self.host} ({known})" if known else self.host


@dataclass(frozen=True, kw_only=True)
class Price:
    """Price per hour of hosts whose `key` matches `pattern`; key '': all other hosts."""

    key: Literal["host", "gpu", "processor", ""]
    pattern: str
    per_hour: Annotated[float, msgspec.Meta(gt=0, lt=1e30)]


@dataclass(frozen=True, kw_only=True)
class Prices:
    """The prices of a file, in file order; `name` is the file's name."""

    name: str
    currency: str
    each: tuple[Price, ...]

    def per_hour(self, hardware: Hardware) -> float | None:
        """Return a host's price per hour, None if no price matches.

        The order: its name, a pattern of its name, its GPU, its processor, the default. Within
        one of these, the first price in the file.
        """
        fitting = [one for one in self.each if _fits(one, hardware)]
        exact = [one for one in fitting if one.key == "host" and not _WILD & set(one.pattern)]
        ranked = exact or sorted(fitting, key=lambda one: (*_KEYS, "").index(one.key))
        return ranked[0].per_hour if ranked else None


def _fits(price: Price, hardware: Hardware) -> bool:
    names = {
        "host": (hardware.host,),
        "gpu": hardware.gpus,
        "processor": (hardware.processor,),
        "": ("",),
    }
    return any(fnmatchcase(name, price.pattern) for name in names[price.key])


def hardware_of(environment: Mapping[str, Any], host: str) -> Hardware:
    """Return a host's hardware from the run's environment; no hosts: a local run."""
    found = environment.get("hosts", {}).get(host)
    if found is None:
        alone = "" if environment.get("hosts") else str(environment.get("processor", ""))
        return Hardware(host=host, processor=alone)
    return Hardware(
        host=host,
        gpus=tuple(str(gpu.get("name", "")) for gpu in found.get("gpus", ())),
        processor=str(found.get("processor", "")),
    )


def load_prices(path: Path) -> Prices:
    """Read a price file; raise SpecError with the file, the price, expected and got."""
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
        return _prices(path.name, data)
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise SpecError(error_line(path, problem=problem)) from error
    except (ValueError, RecursionError) as error:
        raise toml_error(path, text, error) from error
    except SpecError as error:
        raise SpecError(error_line(path, problem=str(error))) from error


def _prices(name: str, data: dict[str, Any]) -> Prices:
    for field in data:
        if field not in {"price", "currency"}:
            raise unknown("field", field, ("price", "currency"))
    tables = data.get("price")
    if not isinstance(tables, list) or not tables or not all(isinstance(t, dict) for t in tables):
        expected = "one or more [[price]] tables"
        raise SpecError(error_line("", expected=expected, got="none"))
    each, currencies = [], dict[str, int]()
    for number, table in enumerate(tables, 1):
        try:
            each.append(_price(table))
            currency = _currency(table.get("currency", data.get("currency")))
        except SpecError as error:
            raise SpecError(error_line(f"price {number}", problem=str(error))) from error
        currencies.setdefault(currency, number)
    if len(currencies) > 1:
        expected = "one currency for all prices"
        raise SpecError(error_line("", expected=expected, got=" and ".join(currencies)))
    defaults = [number for number, one in enumerate(each, 1) if not one.key]
    if len(defaults) > 1:
        expected = "host, gpu or processor"
        problem = f"price {defaults[0]} is already the default for all other hosts"
        raise SpecError(error_line(f"price {defaults[1]}", expected=expected, problem=problem))
    return Prices(name=name, currency=next(iter(currencies)), each=tuple(each))


def _price(table: dict[str, Any]) -> Price:
    for field in table:
        if field not in _FIELDS:
            raise unknown("field", field, _FIELDS)
    keys = [key for key in _KEYS if key in table]
    if len(keys) > 1:
        expected, got = "one of host, gpu and processor", " and ".join(keys)
        raise SpecError(error_line("", expected=expected, got=got))
    if "per_hour" not in table:
        raise SpecError(error_line("per_hour", expected="a price per hour", got="none"))
    per_hour = checked("per_hour", float, table["per_hour"])
    if per_hour <= 0:
        expected, got = "a number above 0", f"{per_hour:g}"
        raise SpecError(error_line("per_hour", expected=expected, got=got))
    key: Literal["host", "gpu", "processor", ""] = keys[0] if keys else ""
    pattern = checked(key, str, table[key]) if key else "*"
    if not pattern:
        expected = "a name or a pattern such as 'p3-*'"
        raise SpecError(error_line(key, expected=expected, got="''"))
    return Price(key=key, pattern=pattern, per_hour=per_hour)


def _currency(value: Any) -> str:
    if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isalpha():
        return value.upper()
    got = "none" if value is None else quoted(value)
    raise SpecError(error_line("currency", expected="three letters such as 'USD'", got=got))
