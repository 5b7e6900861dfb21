"""Settings: the fields in which points differ from the defaults, one by one and in common."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING
from functools import lru_cache
from typing import Any

from bench.errors import SpecError
from bench.networks import NETWORKS
from bench.trial import FIELDS, Trial, make
from plots.point_labels import differing, distinguishing_fields, format_fields

# What a table, its caption and its summary show of each point, whatever it is.
_SHOWN = frozenset({"network", "num_layers", "mode", "kvstore", "device", "devices"})
_BATCH, _FULL = "batch_per_device", "devices_per_host"
_MOST_NAMED = 3


def common_settings(trials: Sequence[Trial]) -> str:
    """The settings that all points share and that are not the defaults: 'gc_type 2bit, seed 7'."""
    names = [name for name in _shared(trials) if any(name in _unusual(trial) for trial in trials)]
    return format_fields(trials[0], names) if names else ""


def own_settings(trials: Sequence[Trial]) -> list[str]:
    """For each point, its settings that are not the defaults and that not all points share.

    Those that `plots.point_labels` names are left out.
    """
    shared = _shared(trials)
    found = []
    for trial, told in zip(trials, differing(trials), strict=True):
        names = [name for name in _unusual(trial) if name not in shared and name not in told]
        found.append(format_fields(trial, names))
    return found


def varied_settings(trials: Sequence[Trial]) -> str:
    """The settings of `own_settings`, each with its points: 'gc_type 2bit (tiny dist_sync x2)'."""
    points: dict[str, list[str]] = {}
    for trial, text, more in zip(
        trials, own_settings(trials), distinguishing_fields(trials), strict=True
    ):
        if text:
            points.setdefault(text, []).append(f"{trial.name} ({more})" if more else trial.name)
    return "; ".join(f"{text} ({_named(names)})" for text, names in points.items())


def _named(names: Sequence[str]) -> str:
    more = [f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
    return ", ".join([*names[:_MOST_NAMED], *more])


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
