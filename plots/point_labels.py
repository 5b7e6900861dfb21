"""Non-default settings of points, as tables, captions and summaries print them."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass
from functools import lru_cache
from typing import Any

from bench.errors import SpecError
from bench.networks import NETWORKS
from bench.settings.point_names import differing, format_value, point_names
from bench.trial import FIELDS, Trial, make, values_of
from plots.format import list_names
from results.record import grouped, kept_by_items

# Fields that tables, captions and summaries always show.
_SHOWN = frozenset({"network", "num_layers", "mode", "kvstore", "device", "devices"})
_GIVEN = tuple(name for name in FIELDS if name in _SHOWN and name != "mode")
_BATCH, _FULL = "batch_per_device", "devices_per_host"
_MOST_NAMED = 3
# Combinations of settings that a caption lists; a figure has no room for hundreds.
_MOST_LISTED = 8
# Values of a field to print; a list may have hundreds.
_MOST = 8
# The script of the simulated engine, which only records and results.csv show.
_SCRIPT = "fake_"
_TRAINING = ("synthetic", "real")
# Fields to compare with their defaults.
_COMPARED = frozenset(
    name for name in FIELDS if name not in _SHOWN | {_BATCH} and not name.startswith(_SCRIPT)
)
_ALL = values_of(FIELDS)
# The part of a setting's help that gives the meaning of 0: '; 0 runs every window'.
_ZERO = re.compile(r"; 0 ([^;]+)")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The non-default settings of a run's points, each as 'windows = 5'.

    shared  those of all points
    most    those of more than half of the training points; `own` has the exceptions
    own     per point, its other non-default settings, without its `distinguishing_fields`
    """

    shared: tuple[str, ...]
    most: tuple[str, ...]
    own: tuple[tuple[str, ...], ...]


@kept_by_items
def settings_of(trials: Sequence[Trial]) -> Settings:
    """Split the non-default settings of these points by how many points have them."""
    varied = _varied(trials)
    every = [_unusual(trial) for trial in trials]
    named = differing(trials)
    found = set[str]().union(*every)
    shared = [name for name in FIELDS if name in found and name not in varied]
    most = _settings_of_most(trials, every, set(varied).difference(*named))
    own = []
    for trial, unusual, label in zip(trials, every, named, strict=True):
        names = [
            name
            for name in varied
            if name not in label
            and (trial.value(name) != most[name] if name in most else name in unusual)
        ]
        own.append(tuple(_setting(name, trial.value(name)) for name in names))
    return Settings(
        shared=tuple(_setting(name, trials[0].value(name)) for name in shared),
        most=tuple(_setting(name, value) for name, value in most.items()),
        own=tuple(own),
    )


def _settings_of_most(
    trials: Sequence[Trial], every: Sequence[Collection[str]], names: Collection[str]
) -> dict[str, Any]:
    """Return the non-default values that more than half of the training points have.

    `every` has the names of each point's non-default settings; only `names` count.
    """
    training = [pair for pair in zip(trials, every, strict=True) if pair[0].mode in _TRAINING]
    training = training or list(zip(trials, every, strict=True))
    found = {}
    for name in FIELDS:
        if name not in names:
            continue
        values = Counter(one.value(name) for one, unusual in training if name in unusual)
        for value, count in values.most_common(1):
            if 2 * count > len(training):
                found[name] = value
    return found


def _setting(name: str, value: Any) -> str:
    """Return 'precision = 0 (runs every window)': name, value, and what 0 stands for."""
    if (name, value) == ("engine", "fake"):
        value = "simulated"  # the stored name is older than the term
    meaning = _ZERO.search(FIELDS[name].setting.help) if value == 0 else None
    return f"{name} = {_value(value)}{f' ({meaning[1]})' if meaning else ''}"


def _value(value: Any) -> str:
    """Return the value nearly as a sweep file has it; strings lack their quotes."""
    if isinstance(value, tuple):
        more = [f"{len(value) - _MOST} more"] if len(value) > _MOST else []
        return f"[{', '.join([*map(_value, value[:_MOST]), *more])}]"
    if isinstance(value, float):
        return f"{value:g}"
    return format_value(value)


def common_settings(trials: Sequence[Trial]) -> str:
    """Return the settings of all points, then those of most: 'seed = 7, windows = 5'."""
    if not trials:
        return ""
    found = settings_of(trials)
    most = [f"{'; ' * bool(found.shared)}unless noted: {', '.join(found.most)}"] * bool(found.most)
    return "".join([", ".join(found.shared), *most])


def varied_settings(trials: Sequence[Trial]) -> str:
    """Return the settings of single points: 'gc_type = 2bit (tiny dist_sync x2)'."""
    points = grouped(zip(settings_of(trials).own, point_names(trials), strict=True))
    found = [(texts, names) for texts, names in points.items() if texts]
    listed = [
        f"{', '.join(texts)} ({list_names(names, _MOST_NAMED, ', ')})"
        for texts, names in found[:_MOST_LISTED]
    ]
    more = sum(len(names) for _, names in found[_MOST_LISTED:])
    return "; ".join([*listed, *([f"{more} more points"] if more else [])])


def _varied(trials: Sequence[Trial]) -> list[str]:
    """Return the fields with several values, in the order of records."""
    columns = zip(*map(_ALL, trials), strict=True)
    return [name for name, values in zip(FIELDS, columns, strict=False) if len(set(values)) > 1]


@lru_cache(maxsize=4096)
def _unusual(trial: Trial) -> tuple[str, ...]:
    """Return the names of non-default fields, without scripts and those always shown."""
    usual = _defaults(trial)
    # The label of an input-pipeline point already shows these.
    reads = {"data_nthreads", "cold"} if trial.mode == "test-io" else set()
    return tuple(
        name
        for name, value in zip(FIELDS, _ALL(trial), strict=True)
        if name in _COMPARED and name not in reads and name in usual and value != usual[name]
    )


def _defaults(trial: Trial) -> Mapping[str, Any]:
    """Return the default values of all fields, given the fields that are always shown."""
    return _usual(*(trial.value(name) for name in _GIVEN), trial.layout.devices_per_host)


@lru_cache(maxsize=4096)
def _usual(*values: Any) -> Mapping[str, Any]:
    """Return all defaults, given `_GIVEN` and the devices of a full host."""
    *shown, full = values
    given = dict(zip(_GIVEN, shown, strict=True)) | {_BATCH: 1}  # which no default depends on
    with suppress(SpecError):  # a store or a depth of another tool or version
        if given["network"] in NETWORKS:
            usual = make(given)
            # The devices per worker depend on the devices per host.
            whole = make(given | {_FULL: full})
            return whole.fields | {_FULL: usual.layout.devices_per_host}
    return {name: field.default for name, field in FIELDS.items() if field.default is not MISSING}
