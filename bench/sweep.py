"""Sweep files: TOML files of points, each a product of lists, expanded to trials.

All points share the top-level fields. In a [[points]] table, `network`, `kvstore`, `mode` and
`devices` may be lists, `devices` may be a series "1..256" (doubling, ending with the last number),
and any field may be a table by network: batch_per_device = { alexnet = 512, resnet-152 = 32 }. A
[rehearsal.NETWORK] table holds the throughput (images/s) by devices that the engine `fake`
simulates.
"""

import contextlib
import difflib
import itertools
import math
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.engines.catalog import ENGINES
from bench.errors import SpecError, brief, error_line, is_whole, quoted, toml_error, unknown
from bench.kvstores import is_distributed
from bench.networks import describe, named
from bench.settings import secrets
from bench.settings.declaration import checked
from bench.trial import FIELDS, Trial, chosen, make


def within(devices: int) -> list[int]:
    """Return the device counts to measure on one host: 1, 2, 4 ... and all."""
    counts = [1]
    while counts[-1] * 2 < devices:
        counts.append(counts[-1] * 2)
    return counts + [devices] * (devices > 1)


def spread(data: dict[str, Any], hosts: int, devices: int) -> dict[str, Any]:
    """Replace the device counts of a sweep file's data by those of a cluster.

    A kvstore within one process gets counts up to the `devices` of one host. A distributed kvstore
    gets counts up to all `hosts`, and starts at one device or at two hosts, as in the file. One
    worker, the speed-up baseline of that kvstore, is always measured. Points without device counts
    are kept.
    """
    points = data.get("points")
    if not isinstance(points, list):
        return data
    kept = {name: value for name, value in data.items() if name != "devices"}
    return kept | {
        "points": [
            spread_point
            for point in points
            for spread_point in _points(data, point, hosts, devices)
        ]
    }


def _points(data: dict[str, Any], point: Any, hosts: int, devices: int) -> list[Any]:
    full_point = data | point if isinstance(point, dict) else {}
    if "devices" not in full_point:
        return [point]
    stores = full_point.get("kvstore", "local")
    first, full = _first(full_point["devices"]), full_point.get("devices_per_host", 0)
    beyond = [count * devices for count in within(hosts)[1:]]
    made = []
    for store in stores if isinstance(stores, list) else [stores]:
        one_worker = [devices if full_point.get("device") == "gpu" else 1]
        counts = one_worker if is_distributed(store) and 0 < full < first else within(devices)
        counts += beyond if is_distributed(store) else []
        if counts:
            made.append({**point, "kvstore": store, "devices": counts})
    return made


def _first(counts: Any) -> int:
    """Return the smallest device count of a point."""
    if isinstance(counts, str):
        counts = counts.partition("..")[0]
    listed = counts if isinstance(counts, list) else [counts]
    texts = (one for one in listed if isinstance(one, str) and is_whole(one))
    whole = [*map(int, texts), *(one for one in listed if isinstance(one, int))]
    return min(whole, default=1)


_MOST_SECONDS = 1e9
# Images per second of the whole job, by network and devices.
Rates = Mapping[tuple[str, int], float]


def rehearsal_rates(tables: Any) -> Rates:
    """Read the [rehearsal.NETWORK] tables of a sweep: DEVICES = IMAGES_PER_SECOND."""
    if not isinstance(tables, dict) or not all(isinstance(one, dict) for one in tables.values()):
        raise SpecError(
            error_line("rehearsal", expected="[rehearsal.NETWORK] tables", got=quoted(tables))
        )
    found = {}
    for network, table in tables.items():
        label = describe(*named(network))
        for devices, rate in table.items():
            value = checked(f"rehearsal.{network}.{brief(devices)}", float, rate)
            if not is_whole(devices) or value <= 0:
                raise SpecError(
                    error_line(
                        f"rehearsal.{network}",
                        expected="DEVICES = IMAGES_PER_SECOND",
                        got=f"{brief(devices)} = {quoted(rate)}",
                    )
                )
            found[label, int(devices)] = value
    return found


def with_rehearsal(trial: Trial, rates: Rates) -> Trial:
    """Return a simulated trial with window times from its rate; others unchanged."""
    rate = rates.get((trial.label, trial.layout.devices))
    if trial.engine != "fake" or trial.fake.seconds or rate is None:
        return trial
    seconds = trial.global_batch * trial.measuring.steps_per_window / rate
    if not 0 < seconds < _MOST_SECONDS:
        raise SpecError(
            error_line(
                f"rehearsal.{trial.label}.{trial.layout.devices}",
                expected=f"windows of less than {_MOST_SECONDS:g} s",
                got=f"{seconds:g} s at {quoted(rate)} images/s",
            )
        )
    return trial.replace(fake_seconds=(seconds,))


def with_fault(trials: Sequence[Trial], text: str) -> tuple[Trial, ...]:
    """Add the fault POINT:ROLE[-INDEX]:KIND[@WINDOW] to the trials that POINT selects.

    Raises SpecError if it selects none, or one of them cannot have this fault.
    """
    point, _, fault = text.partition(":")
    if ":" not in fault:
        raise SpecError(
            error_line(
                "--fault",
                expected="POINT:ROLE:KIND",
                got=quoted(text),
                fix="Give --fault 'x2:worker-1:kill@3'",
            )
        )
    try:
        faulty = chosen(trials, point)
    except SpecError as error:
        raise SpecError(error_line("--fault", problem=str(error))) from error
    return tuple(_faulty(trial, fault) if trial in faulty else trial for trial in trials)


def _faulty(trial: Trial, fault: str) -> Trial:
    try:
        return make(trial.fields | {"fake_faults": (*trial.fake.faults, fault)})
    except SpecError as error:
        raise SpecError(error_line("--fault", problem=f"{trial.name}: {error}")) from error


SHIPPED = Path(__file__).parent / "sweeps"
MOST_REPEATS = 1000
MOST_POINTS = 10_000
_PRODUCT = ("network", "kvstore", "mode", "devices")
_NOT_A_FIELD = ("description", "repeats", "points", "rehearsal")


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A parsed sweep file.

    `text` is the file's text and `command` the words of the command that measured it; both are
    stored with the results.
    """

    name: str
    description: str
    repeats: int
    trials: tuple[Trial, ...]
    text: str
    command: tuple[str, ...] = ()


def path_of(name: str) -> Path:
    """Return the file of a sweep by its path, with or without .toml.

    A shipped sweep of that name takes precedence.
    """
    with contextlib.suppress(OSError, ValueError):  # not a valid file name
        shipped_file = [SHIPPED / f"{name}.toml"] if os.sep not in name else []
        for path in (*shipped_file, Path(name), Path(f"{name}.toml")):
            if path.is_file():
                return path
    shipped = sorted(file.stem for file in SHIPPED.glob("*.toml"))
    own = sorted(file.stem for file in Path().glob("*.toml") if file.stem != "pyproject")
    raise unknown("sweep", name, [*shipped, *own, "or the path of a sweep file"])


def unused_file(name: str) -> Path | None:
    """Return the user's file that a shipped sweep of the same name hides."""
    own = Path(f"{name}.toml")
    is_shipped = os.sep not in name and (SHIPPED / own).is_file()
    return own if is_shipped and own.is_file() else None


def load_sweep(
    name: str, *, engine: str | None = None, hosts: int = 0, fields: dict[str, Any] | None = None
) -> Sweep:
    """Load a sweep by name or path.

    Raises SpecError with file, field, expected and actual value. `engine` and `fields` override the
    file for all points; fields["env"] is added to the file's variables and takes precedence. With
    `hosts` of fields["devices_per_host"] devices each, points with device counts get those of such
    a cluster (`spread`).
    """
    if engine is not None and engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    path = path_of(name)
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise toml_error(path, text, error, "See docs/reference/sweep-file.md") from error
    except OSError as error:
        raise SpecError(
            error_line(
                path,
                problem=f"cannot be read ({error.strerror})",
                fix="Check the path, and that you may read it",
            )
        ) from error
    if engine is not None:
        data["engine"] = engine
    try:
        if hosts:
            data = spread(data, hosts, (fields or {})["devices_per_host"])
        given = dict(fields or {})
        more = given.pop("env", [])
        return _sweep(path, text, _for_all(data, given), more)
    except SpecError as error:
        raise SpecError(error_line(path, problem=str(error))) from error


def parse_sweep(path: Path, text: str) -> Sweep:
    """Parse the text of a sweep file that may not exist yet; SpecError if invalid."""
    return _sweep(path, text, tomllib.loads(text), [])


def _for_all(data: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    """Return a file's data with these fields in place of every point's own."""
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
        raise SpecError(
            error_line("repeats", expected="a whole number, 1 or more", got=quoted(repeats))
        )
    points = data.get("points")
    if not isinstance(points, list) or not points or not all(isinstance(p, dict) for p in points):
        raise SpecError(
            error_line(
                "points",
                expected="at least one [[points]] table",
                got="none",
                fix="Add [[points]] with devices = [1, 2]",
            )
        )
    shared = {name: value for name, value in data.items() if name not in _NOT_A_FIELD}
    _check_names(shared)
    rates = rehearsal_rates(data.get("rehearsal", {}))
    found: dict[str, Trial] = {}
    for number, point in enumerate(points, 1):
        try:
            _check_names(point)
            for trial in _expand(shared | point, env):
                full = with_rehearsal(trial, rates)
                found[full.key] = full
        except SpecError as error:
            raise SpecError(error_line(f"point {number}", problem=str(error))) from error
        if len(found) > MOST_POINTS:
            raise SpecError(error_line("points", expected=f"{MOST_POINTS} or fewer", got="more"))
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
            raise SpecError(_unknown_field(name))
    engine = fields.get("engine", "mxnet")
    if not isinstance(engine, str) or engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)


def _unknown_field(name: str) -> str:
    """Return the error for an unknown field, with the field that is probably meant.

    That is one of a similar name, of the same option of a program, or with the same first word.
    """
    if name in _NOT_A_FIELD:
        where, top = f"field {quoted(name)}", "the top of the file"
        return error_line(where, expected=top, got="a [[points]] table", fix="Move it there")
    flags = {field.setting.flag.strip("-").replace("-", "_"): one for one, field in FIELDS.items()}
    first = name.partition("_")[0]
    near = [
        *difflib.get_close_matches(name, [*FIELDS, *_NOT_A_FIELD], n=1),
        *([flags[name]] if flags.get(name) else []),
        *(one for one in FIELDS if first and one.startswith(f"{first}_")),
    ]
    hint = f"did you mean {near[0]!r}? See" if near else "see"
    return f"unknown field {quoted(name)}; {hint} docs/reference/sweep-file.md"


def _expand(fields: dict[str, Any], env: list[str]) -> Iterator[Trial]:
    axes = [
        series(fields[name]) if name == "devices" else _listed(fields[name])
        for name in _PRODUCT
        if name in fields
    ]
    names = [name for name in _PRODUCT if name in fields]
    for name, listed in zip(names, axes, strict=True):
        if not listed:
            raise SpecError(error_line(name, expected="at least one value", got="an empty list"))
    if math.prod(map(len, axes)) > MOST_POINTS:
        raise SpecError(
            error_line("points", expected=f"{MOST_POINTS} or fewer", got=math.prod(map(len, axes)))
        )
    if "devices" in names and "devices_per_host" not in fields:
        fields = fields | {"devices_per_host": max(axes[names.index("devices")])}
    for values in itertools.product(*axes):
        made = _of_network(fields | dict(zip(names, values, strict=True)))
        if env and isinstance(kept := made.get("env", []), list):
            made["env"] = secrets.added(kept, env)
        yield make(made)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _of_network(fields: dict[str, Any]) -> dict[str, Any]:
    """Resolve network names and look up tables by network."""
    fields = dict(fields)
    label = ""
    if "network" in fields:
        if not isinstance(fields["network"], str):
            raise SpecError(error_line("network", expected="a name", got=quoted(fields["network"])))
        family, layers = named(fields["network"])
        fields["network"] = family
        given = checked("num_layers", FIELDS["num_layers"].type, fields.get("num_layers"))
        fields["num_layers"] = layers if given is None else given
        label = describe(family, fields["num_layers"])
    for name, value in fields.items():
        if isinstance(value, dict):
            if label not in value:
                raise SpecError(
                    error_line(
                        name,
                        expected=f"an entry for network {quoted(label)}",
                        got="none",
                        fix="Add it to the table",
                    )
                )
            fields[name] = value[label]
    return fields


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
