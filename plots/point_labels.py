"""Point labels: distinguishing fields and non-default settings."""

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

# Fields that tables, captions and summaries always show.
_SHOWN = frozenset({"network", "num_layers", "mode", "kvstore", "device", "devices"})
_BATCH, _FULL = "batch_per_device", "devices_per_host"
_MOST_NAMED = 3
# Values of a field to print; a field may have hundreds of scripted times.
_MOST = 8


def distinguishing_fields(trials: Sequence[Trial]) -> list[str]:
    """Return, per trial, the fields that differ among trials of one label and layout.

    'dtype bfloat16, gc_type 2bit'; empty for a trial with a unique label and layout.
    """
    return [
        format_fields(trial, names) for trial, names in zip(trials, differing(trials), strict=True)
    ]


def point_names(trials: Sequence[Trial]) -> list[str]:
    """Return names with distinguishing fields: 'tiny local x2 (dtype bfloat16)'."""
    fields = distinguishing_fields(trials)
    return [
        f"{trial.name} ({text})" if text else trial.name
        for trial, text in zip(trials, fields, strict=True)
    ]


def differing(trials: Sequence[Trial]) -> list[list[str]]:
    """Return the names of the fields of `distinguishing_fields`."""
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
    """Return the trial's fields as text: 'dtype bfloat16, gc_type 2bit'."""
    return ", ".join(f"{name} {_text(trial.value(name))}" for name in names)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        more = f" and {len(value) - _MOST} more" if len(value) > _MOST else ""
        return (" ".join(map(str, value[:_MOST])) or "none") + more
    return "none" if value in {"", None} else str(value)


def common_settings(trials: Sequence[Trial]) -> str:
    """Return the non-default settings that all points share: 'gc_type 2bit, seed 7'."""
    names = [name for name in _shared(trials) if any(name in _unusual(trial) for trial in trials)]
    return format_fields(trials[0], names) if names else ""


def own_settings(trials: Sequence[Trial]) -> list[str]:
    """Return, per point, the non-default settings that not all points share.

    Omits the `distinguishing_fields`.
    """
    shared = _shared(trials)
    found = []
    for trial, told in zip(trials, differing(trials), strict=True):
        names = [name for name in _unusual(trial) if name not in shared and name not in told]
        found.append(format_fields(trial, names))
    return found


def varied_settings(trials: Sequence[Trial]) -> str:
    """Return `own_settings` with their points: 'gc_type 2bit (tiny dist_sync x2)'."""
    points = grouped(zip(own_settings(trials), point_names(trials), strict=True))
    return "; ".join(
        f"{text} ({list_names(names, _MOST_NAMED, ', ')})" for text, names in points.items() if text
    )


def _shared(trials: Sequence[Trial]) -> list[str]:
    return [name for name in FIELDS if len({trial.value(name) for trial in trials}) == 1]


@lru_cache(maxsize=4096)
def _unusual(trial: Trial) -> tuple[str, ...]:
    """Return the names of non-default fields, without those that are always shown."""
    usual = _defaults(trial)
    # The label of an input-pipeline point already shows these.
    reads = {"data_nthreads", "cold"} if trial.mode == "test-io" else set()
    return tuple(
        name
        for name in FIELDS
        if name not in _SHOWN | reads | {_BATCH}
        and name in usual
        and trial.value(name) != usual[name]
    )


def _defaults(trial: Trial) -> Mapping[str, Any]:
    """Return the default values of all fields, given the fields that are always shown."""
    given = {name: trial.value(name) for name in _SHOWN if name != "mode"}
    with suppress(SpecError):  # a store or a depth of another tool or version
        if trial.model.network in NETWORKS:
            given |= {_BATCH: max(1, trial.training.batch_per_device)}
            usual = make(given)
            # The devices per worker depend on the devices per host.
            whole = make(given | {_FULL: trial.layout.devices_per_host})
            return whole.fields | {_FULL: usual.layout.devices_per_host}
    return {name: field.default for name, field in FIELDS.items() if field.default is not MISSING}
