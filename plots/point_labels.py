"""Point labels: fields that distinguish points, and settings that are not the defaults."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING
from functools import lru_cache
from typing import Any

from bench.errors import SpecError
from bench.networks import NETWORKS
from bench.trial import FIELDS, Trial, make
from plots.format import list_names
from results.record import grouped

# What a table, its caption and its summary show of each point, whatever it is.
_SHOWN = frozenset({"network", "num_layers", "mode", "kvstore", "device", "devices"})
_BATCH, _FULL = "batch_per_device", "devices_per_host"
_MOST_NAMED = 3
# Of the values of a field, which may be hundreds of scripted times.
_MOST = 8


def distinguishing_fields(trials: Sequence[Trial]) -> list[str]:
    """For each trial, the fields in which it differs from those that share its label and layout.

    'dtype bfloat16, gc_type 2bit'; empty for a trial that shares them with none.
    """
    return [
        format_fields(trial, names) for trial, names in zip(trials, differing(trials), strict=True)
    ]


def point_names(trials: Sequence[Trial]) -> list[str]:
    """Each point's name, with its distinguishing fields: 'tiny local x2 (dtype bfloat16)'."""
    fields = distinguishing_fields(trials)
    return [
        f"{trial.name} ({text})" if text else trial.name
        for trial, text in zip(trials, fields, strict=True)
    ]


def differing(trials: Sequence[Trial]) -> list[list[str]]:
    """As `distinguishing_fields`, the names of the fields."""
    alike = grouped((_shown(trial), trial) for trial in trials)
    names = {
        shown: [name for name in FIELDS if len({one.value(name) for one in members}) > 1]
        for shown, members in alike.items()
    }
    return [names[_shown(trial)] for trial in trials]


def _shown(trial: Trial) -> object:
    batch = trial.device_batch, trial.worker_batch, trial.global_batch
    return trial.label, trial.mode, trial.layout.kvstore, trial.layout.devices, batch


def format_fields(trial: Trial, names: Sequence[str]) -> str:
    """The trial's fields of these names: 'dtype bfloat16, gc_type 2bit'."""
    return ", ".join(f"{name} {_text(trial.value(name))}" for name in names)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        more = f" and {len(value) - _MOST} more" if len(value) > _MOST else ""
        return (" ".join(map(str, value[:_MOST])) or "none") + more
    return "none" if value in {"", None} else str(value)


def common_settings(trials: Sequence[Trial]) -> str:
    """The settings that all points share and that are not the defaults: 'gc_type 2bit, seed 7'."""
    names = [name for name in _shared(trials) if any(name in _unusual(trial) for trial in trials)]
    return format_fields(trials[0], names) if names else ""


def own_settings(trials: Sequence[Trial]) -> list[str]:
    """For each point, its settings that are not the defaults and that not all points share.

    Those of `distinguishing_fields` are left out.
    """
    shared = _shared(trials)
    found = []
    for trial, told in zip(trials, differing(trials), strict=True):
        names = [name for name in _unusual(trial) if name not in shared and name not in told]
        found.append(format_fields(trial, names))
    return found


def varied_settings(trials: Sequence[Trial]) -> str:
    """The settings of `own_settings`, each with its points: 'gc_type 2bit (tiny dist_sync x2)'."""
    points = grouped(zip(own_settings(trials), point_names(trials), strict=True))
    return "; ".join(
        f"{text} ({list_names(names, _MOST_NAMED, ', ')})" for text, names in points.items() if text
    )


def _shared(trials: Sequence[Trial]) -> list[str]:
    return [name for name in FIELDS if len({trial.value(name) for trial in trials}) == 1]


@lru_cache(maxsize=4096)
def _unusual(trial: Trial) -> tuple[str, ...]:
    """The fields that are not shown anyway and have other values than the defaults."""
    usual = _defaults(trial)
    # A label says how a point that only reads does it, and a batch cell how many images.
    reads = {"data_nthreads", "cold"} if trial.mode == "test-io" else set()
    return tuple(
        name
        for name in FIELDS
        if name not in _SHOWN | reads | {_BATCH}
        and name in usual
        and trial.value(name) != usual[name]
    )


def _defaults(trial: Trial) -> Mapping[str, Any]:
    """The values that fields have if nothing but what is shown of the point is given."""
    given = {name: trial.value(name) for name in _SHOWN if name != "mode"}
    with suppress(SpecError):  # a store or a depth of another tool or version
        if trial.model.network in NETWORKS:
            given |= {_BATCH: max(1, trial.training.batch_per_device)}
            usual = make(given)
            # How many devices share a worker follows from how many a host has.
            whole = make(given | {_FULL: trial.layout.devices_per_host})
            return whole.fields | {_FULL: usual.layout.devices_per_host}
    return {name: field.default for name, field in FIELDS.items() if field.default is not MISSING}
