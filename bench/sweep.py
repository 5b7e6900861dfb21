"""Sweeps as data: a TOML file of points, each a product of lists, to a tuple of trials.

Top-level fields are shared by all points. In a [[points]] table, `network`, `kvstore`, `mode` and
`devices` may be lists, `devices` may be a series "1..256" (doubling, the end as a tail), and any
field may be a table by network: batch_per_device = { alexnet = 512, resnet-152 = 32 }. A table
[rehearsal.NETWORK] holds the images per second, by devices, that the fake engine plays.
"""

import contextlib
import itertools
import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import rehearsal, secrets
from bench import trial as trials
from bench.engines import ENGINES
from bench.errors import SpecError, brief, is_whole, quoted, unknown
from bench.networks import describe, named
from bench.spread import spread
from bench.trial import FIELDS, Trial
from bench.values import checked

SHIPPED = Path(__file__).parent / "sweeps"
MOST_REPEATS = 1000
MOST_POINTS = 10_000
_PRODUCT = ("network", "kvstore", "mode", "devices")
_NOT_A_FIELD = ("description", "repeats", "points", "rehearsal")


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What a sweep file says.

    `text` is the file itself, and `command` what was typed to measure it, word by word: both are
    kept with its results.
    """

    name: str
    description: str
    repeats: int
    trials: tuple[Trial, ...]
    text: str
    command: tuple[str, ...] = ()


def path_of(name: str) -> Path:
    """The file of a shipped sweep's name, or the path itself."""
    with contextlib.suppress(OSError, ValueError):  # no name of a file
        for path in (SHIPPED / f"{name}.toml", Path(name)):
            if path.is_file():
                return path
    shipped = sorted(file.stem for file in SHIPPED.glob("*.toml"))
    raise SpecError(f"{unknown('sweep', name, shipped)}; and there is no file of that name")


def load_sweep(
    name: str, *, engine: str | None = None, hosts: int = 0, fields: dict[str, Any] | None = None
) -> Sweep:
    """The sweep of a name or path; raises SpecError naming file, field, expected and found.

    `engine` and `fields` replace what the file says for all points; fields["env"] is added to what
    it says, and wins. With `hosts`, of
    fields["devices_per_host"] devices each, points that name device counts get those of such a
    cluster (`spread`).
    """
    if engine is not None and engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    path = path_of(name)
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"{path}: not a TOML file: {brief(error)}") from error
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror}") from error
    if engine is not None:
        data["engine"] = engine
    try:
        if hosts:
            data = spread(data, hosts, (fields or {})["devices_per_host"])
        given = dict(fields or {})
        more = given.pop("env", [])
        return _sweep(path, text, _for_all(data, given), more)
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from error


def _for_all(data: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """What a file says, with these fields in place of those of any point."""
    points = data.get("points")
    if not fields or not isinstance(points, list):
        return data
    kept = [
        {name: value for name, value in point.items() if name not in fields}
        for point in points
        if isinstance(point, dict)
    ]
    return data | fields | {"points": kept}


def _sweep(path: Path, text: str, data: dict[str, Any], env: list[str]) -> Sweep:
    repeats = data.get("repeats", 3)
    if (
        not isinstance(repeats, int)
        or isinstance(repeats, bool)
        or not 1 <= repeats <= MOST_REPEATS
    ):
        raise SpecError(f"repeats: expected a whole number, 1 or more, got {quoted(repeats)}")
    points = data.get("points")
    if not isinstance(points, list) or not points or not all(isinstance(p, dict) for p in points):
        raise SpecError("expected at least one [[points]] table, found none")
    shared = {name: value for name, value in data.items() if name not in _NOT_A_FIELD}
    _check_names(shared)
    rates = rehearsal.rates(data.get("rehearsal", {}))
    found: dict[str, Trial] = {}
    for number, point in enumerate(points, 1):
        try:
            _check_names(point)
            for trial in _expand(shared | point, env):
                played = rehearsal.played(trial, rates)
                found[played.key] = played
        except SpecError as error:
            raise SpecError(f"point {number}: {error}") from error
        if len(found) > MOST_POINTS:
            raise SpecError(f"expected {MOST_POINTS} points or fewer in all, got more")
    return Sweep(
        name=path.stem,
        description=str(data.get("description", "")),
        repeats=repeats,
        trials=tuple(found.values()),
        text=secrets.masked_toml(text),
    )


def _check_names(fields: dict[str, Any]) -> None:
    for name in fields:
        if name not in FIELDS:
            raise unknown("field", name, FIELDS)
    engine = fields.get("engine", "mxnet")
    if not isinstance(engine, str) or engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)


def _expand(fields: dict[str, Any], env: list[str]) -> Iterator[Trial]:
    axes = [
        series(fields[name]) if name == "devices" else _listed(fields[name])
        for name in _PRODUCT
        if name in fields
    ]
    names = [name for name in _PRODUCT if name in fields]
    for name, listed in zip(names, axes, strict=True):
        if not listed:
            raise SpecError(f"{name}: expected at least one, got an empty list")
    if math.prod(map(len, axes)) > MOST_POINTS:
        raise SpecError(f"expected {MOST_POINTS} points or fewer, got {math.prod(map(len, axes))}")
    if "devices" in names and "devices_per_host" not in fields:
        fields = fields | {"devices_per_host": max(axes[names.index("devices")])}
    for values in itertools.product(*axes):
        made = _of_network(fields | dict(zip(names, values, strict=True)))
        if env and isinstance(kept := made.get("env", []), list):
            made["env"] = secrets.added(kept, env)
        yield trials.make(made)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _of_network(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields with network names resolved and tables by network looked up."""
    fields = dict(fields)
    label = ""
    if "network" in fields:
        if not isinstance(fields["network"], str):
            raise SpecError(f"network: expected a name, got {quoted(fields['network'])}")
        family, layers = named(fields["network"])
        fields["network"] = family
        given = checked("num_layers", FIELDS["num_layers"].type, fields.get("num_layers"))
        fields["num_layers"] = layers if given is None else given
        label = describe(family, fields["num_layers"])
    for name, value in fields.items():
        if isinstance(value, dict):
            if label not in value:
                raise SpecError(f"{name}: has no entry for network {quoted(label)}")
            fields[name] = value[label]
    return fields


def series(value: Any) -> list[int]:
    """Device counts: 4, [1, 2, 4] or "1..6", which doubles and ends with the end: 1, 2, 4, 6."""
    counts = value if isinstance(value, list) else [value]
    if isinstance(value, str):
        first, dots, last = value.partition("..")
        if not (dots and is_whole(first) and is_whole(last) and 1 <= int(first) <= int(last)):
            raise SpecError(f"devices: expected a series such as '1..256', got {quoted(value)}")
        counts, count = [], int(first)
        while count < int(last):
            counts.append(count)
            count *= 2
        counts.append(int(last))
    if not counts or not all(isinstance(n, int) and not isinstance(n, bool) for n in counts):
        raise SpecError(f"devices: expected whole numbers, got {quoted(value)}")
    return counts
