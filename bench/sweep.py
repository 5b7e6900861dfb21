"""Sweep files: TOML files of points, each a product of lists, expanded to trials.

All points share the top-level fields. Any field may be a list, `devices` may be a series "1..256"
(doubling, ending with the last number), and any field may be a table by network: batch_per_device =
{ alexnet = 512, resnet-152 = 32 }. A [[points]] table is the product of its lists, for each of the
[[variants]], without the combinations in `exclude`. A [rehearsal.NETWORK] table holds the
throughput (images/s) by devices that the engine `fake` simulates.
"""

import contextlib
import difflib
import os
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.engines.catalog import ENGINES, find_engine
from bench.engines.engine import find_comm
from bench.errors import SpecError, brief, error_line, is_whole, quoted, toml_error, unknown
from bench.kvstores import ALL_REDUCE
from bench.networks import describe, named
from bench.settings import secrets
from bench.settings.declaration import checked
from bench.settings.point_names import chosen
from bench.settings.product import Exclusion, Fields, check_size, exclusions, products
from bench.trial import COMM, FIELDS, Trial, make


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
    first, full = _first(full_point["devices"]), full_point.get("devices_per_host", 0)
    fewest = min(_listed(full), default=0) if _are_whole(_listed(full)) else 0
    beyond = [count * devices for count in within(hosts)[1:]]
    made = []
    for name, store in _engines_and_stores(full_point, hosts, devices):
        # A program spans hosts if it gets their addresses.
        gets_hosts = "{host" in str(full_point.get("command"))
        spans = find_comm(find_engine(name).comms, store).spans or gets_hosts
        # Without a kvstore, the engine chooses one for each count.
        chosen = {"kvstore": store} if "kvstore" in full_point or not spans else {}
        chosen |= {"engine": name} if isinstance(full_point.get("engine"), list) else {}
        for kind in _listed(full_point.get("device", "cpu")):
            one_worker = [devices if kind == "gpu" else 1]
            starts_full = spans and 0 < fewest < first
            counts = one_worker if starts_full else within(devices)
            counts += beyond if spans else []
            kinds = {"device": kind} if "device" in full_point else {}
            if counts:
                made.append({**point, **chosen, **kinds, "devices": counts})
    return made


def _engines_and_stores(
    point: dict[str, Any], hosts: int, devices: int
) -> Iterator[tuple[str, str]]:
    """Yield each engine of a point with each kvstore.

    Without a kvstore, it is the one that the engine uses on all devices.
    """
    for name in map(str, _listed(point.get("engine", "mxnet"))):
        filled: Fields = {"device": "cpu", "devices": hosts * devices, "devices_per_host": devices}
        given = {one: point.get(one) for one in ("command", "format")}
        filled |= {one: value for one, value in given.items() if isinstance(value, str | list)}
        if "kvstore" not in point:
            find_engine(name).fill(filled)
        for store in _listed(point.get("kvstore", filled.get("kvstore"))):
            yield name, store


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _are_whole(values: Sequence[Any]) -> bool:
    return all(type(one) is int for one in values)


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
    if not trial.scripted or trial.fake.seconds or rate is None:
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
_SERVERS = {"servers_per_host", "server_hosts"}
_NOT_A_FIELD = ("description", "repeats", "points", "rehearsal", "variants", "exclude")


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
        for table in (one for name in ("points", "variants") for one in data.get(name, ())):
            if isinstance(table, dict):
                table.pop("engine", None)
    return _sweep(path, text, data, fields or {}, hosts)


def parse_sweep(path: Path, text: str) -> Sweep:
    """Parse the text of a sweep file that may not exist yet; SpecError if invalid."""
    return _sweep(path, text, tomllib.loads(text), {})


class _TableError(SpecError):
    """A mistake in the table of this name and number; number 0 is a field of the file."""

    def __init__(self, name: str, number: int, error: str) -> None:
        super().__init__(error)
        self.name, self.number = name, number


def _sweep(path: Path, text: str, data: Fields, given: Fields, hosts: int = 0) -> Sweep:
    """Return the sweep of a file's data, with the fields `given` for all points."""
    try:
        data = _with_stored_names(data)
        repeats, trials = _repeats(data), _trials(data, given, hosts)
    except SpecError as error:
        line = _line_of(text, error.name, error.number) if isinstance(error, _TableError) else 0
        where = f"{path}:{line}" if line else path
        raise SpecError(error_line(where, problem=str(error))) from error
    return Sweep(
        name=path.stem,
        description=str(data.get("description", "")),
        repeats=repeats,
        trials=trials,
        text=secrets.masked_toml(text),
    )


def _with_stored_names(data: Any) -> Any:
    """Return a sweep's data with `comm`, the general name, as `kvstore` in each table."""
    if isinstance(data, list):
        return [_with_stored_names(one) for one in data]
    if not isinstance(data, dict):
        return data
    if COMM in data and "kvstore" in data:
        fix = "Leave out one of them"
        raise SpecError(error_line(COMM, expected="it or kvstore", got="both", fix=fix))
    tables = ("points", "variants", "exclude")
    return {
        "kvstore" if name == COMM else name: _with_stored_names(one) if name in tables else one
        for name, one in data.items()
    }


def _line_of(text: str, name: str, number: int) -> int:
    """Return the line of the [[name]] table of this number, or of `name =`; 0 if none."""
    head = rf"\[\[[ \t]*{name}[ \t]*\]\]" if number else rf"{name}[ \t]*="
    found = [one.start() for one in re.finditer(rf"^[ \t]*{head}", text, re.MULTILINE)]
    place = max(number, 1) - 1
    return text.count("\n", 0, found[place]) + 1 if place < len(found) else 0


@contextlib.contextmanager
def _in_table(name: str, number: int, where: str) -> Iterator[None]:
    """Name the table in an error that the block raises."""
    try:
        yield
    except SpecError as error:
        text = error_line(where, problem=str(error)) if where else str(error)
        raise _TableError(name, number, text) from error


def _repeats(data: Fields) -> int:
    repeats = data.get("repeats", 3)
    if type(repeats) is not int or not 1 <= repeats <= MOST_REPEATS:
        raise SpecError(
            error_line("repeats", expected="a whole number, 1 or more", got=quoted(repeats))
        )
    return repeats


def _tables(data: Fields, name: str) -> list[Fields]:
    found = data.get(name)
    if not isinstance(found, list) or not found or not all(isinstance(one, dict) for one in found):
        fix = "Add [[points]] with devices = [1, 2]" if name == "points" else f"Write [[{name}]]"
        expected = f"at least one [[{name}]] table"
        raise SpecError(error_line(name, expected=expected, got="none", fix=fix))
    return found


def _trials(data: Fields, given: Fields, hosts: int) -> tuple[Trial, ...]:
    """Return the trials of all tables, each once."""
    points = _tables(data, "points")
    variants = _tables(data, "variants") if "variants" in data else [{}]
    shared = {name: value for name, value in data.items() if name not in _NOT_A_FIELD}
    _check_names(shared)
    for number, variant in enumerate(variants, 1):
        with _in_table("variants", number, f"variant {number}"):
            _check_names(shared | variant)
    with _in_table("exclude", 0, ""):
        excluded = exclusions(data.get("exclude", []))
    rates = rehearsal_rates(data.get("rehearsal", {}))
    found: dict[str, Trial] = {}
    used: set[int] = set()
    for number, point in enumerate(points, 1):
        with _in_table("points", number, f"point {number}"):
            _check_names(shared | point)
            parts = _parts(shared, [point | variant for variant in variants], given, hosts)
            kept = list(_kept(parts, excluded, used, len(found)))
            own = [with_rehearsal(make(_with_options(fields, given)), rates) for fields in kept]
            if not (given or hosts):
                _check_distinct(own)
            found |= {trial.key: trial for trial in own}
    if not (given or hosts):
        _check_used(used, excluded)
    return tuple(found.values())


def _parts(shared: Fields, tables: Sequence[Fields], given: Fields, hosts: int) -> list[Fields]:
    """Return the fields of a point's tables, with those of options and of a cluster."""
    if hosts:
        data = shared | {"points": [*tables]}
        tables = spread(data, hosts, given["devices_per_host"])["points"]
    fixed = {name: value for name, value in given.items() if name != "env"}
    return [shared | table | fixed for table in tables]


def _kept(
    parts: Sequence[Fields], excluded: Sequence[Exclusion], used: set[int], before: int
) -> Iterator[Fields]:
    """Yield the combinations of a point that no exclusion matches.

    The numbers of the exclusions that match are added to `used`. `before` is the number of points
    of the tables before. SpecError if none remains.
    """
    made = [products(part) for part in parts]
    check_size([one for some in made for one in some], before, len(made))
    remain = 0
    for combination in (fields for some in made for one in some for fields in one.combinations()):
        matching = {n for n, one in enumerate(excluded) if one.matches(combination)}
        used |= matching
        if not matching:
            remain += 1
            yield combination
    if not remain:
        problem = "every combination of this point is excluded"
        raise SpecError(error_line("exclude", problem=problem, fix="Remove the point, or a value"))


def _with_options(fields: Fields, given: Fields) -> Fields:
    """Return the fields with the variables of options added.

    Options about servers are left out if the engine or its all-reduce has none.
    """
    engine = ENGINES.get(str(fields.get("engine", "mxnet")))
    serves = engine is None or any(one.servers for one in engine.comms.values())
    if not serves or fields.get("kvstore") == ALL_REDUCE:
        unused = _SERVERS.intersection(given)
        fields = {name: one for name, one in fields.items() if name not in unused}
    kept, more = fields.get("env", []), given.get("env", [])
    if not more or not isinstance(kept, list):
        return fields
    return fields | {"env": secrets.added(kept, more)}


def _check_distinct(trials: Sequence[Trial]) -> None:
    counts = Counter(trial.key for trial in trials)
    twice = next((trial for trial in trials if counts[trial.key] > 1), None)
    if twice:
        fix = "Remove the value or the variant that is repeated"
        got = f"{quoted(twice.name)} {counts[twice.key]} times"
        raise SpecError(error_line("", expected="each combination once", got=got, fix=fix))


def _check_used(used: set[int], excluded: Sequence[Exclusion]) -> None:
    for number in range(len(excluded)):
        if number not in used:
            with _in_table("exclude", 0, f"exclude {number + 1}"):
                fix = "Remove it, or check its values with 'fab bench.plan'"
                raise SpecError(error_line("", problem="matches no combination", fix=fix))


def _check_names(fields: dict[str, Any]) -> None:
    for name in fields:
        if name not in FIELDS:
            raise SpecError(_unknown_field(name))
    if fields.get("stop_accuracy") == FIELDS["stop_accuracy"].default:
        problem = "no accuracy exceeds 1"
        fix = "Leave it out to train all epochs"
        raise SpecError(
            error_line("stop_accuracy", expected="below 1", got=1, problem=problem, fix=fix)
        )
    given = fields.get("engine", "mxnet")
    for engine in given if isinstance(given, list) else [given]:
        if not isinstance(engine, str) or engine not in ENGINES:
            raise unknown("engine", engine, ENGINES)


def _unknown_field(name: str) -> str:
    """Return the error for an unknown field, with the field that is probably meant.

    That is one of a similar name, of the same option of a program, with the same first word, or
    with the name in its help.
    """
    if name in _NOT_A_FIELD:
        where, top = f"field {quoted(name)}", "the top of the file"
        return error_line(where, expected=top, got="a [[points]] table", fix="Move it there")
    flags = {field.setting.flag.strip("-").replace("-", "_"): one for one, field in FIELDS.items()}
    first, words = name.partition("_")[0], name.replace("_", " ").lower()
    near = [
        *difflib.get_close_matches(name, [*FIELDS, *_NOT_A_FIELD], n=1),
        *([flags[name]] if flags.get(name) else []),
        *(one for one in FIELDS if first and one.startswith(f"{first}_")),
        *(one for one, field in FIELDS.items() if words in field.setting.help.lower()),
    ]
    hint = f"did you mean {near[0]!r}? See" if near else "see"
    return f"unknown field {quoted(name)}; {hint} docs/reference/sweep-file.md"
