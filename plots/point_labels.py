"""What tells points apart whose rows would look the same."""

from collections.abc import Sequence

from bench.trial import FIELDS, Trial

# Of the values of a field, which may be hundreds of scripted times.
_MOST = 8


def distinguishing_fields(trials: Sequence[Trial]) -> list[str]:
    """For each trial, the fields in which it differs from those that share its label and layout.

    'dtype bfloat16, gc_type 2bit'; empty for a trial that shares them with none.
    """
    return [
        format_fields(trial, names) for trial, names in zip(trials, differing(trials), strict=True)
    ]


def differing(trials: Sequence[Trial]) -> list[list[str]]:
    """As `distinguishing_fields`, the names of the fields."""
    alike: dict[object, list[Trial]] = {}
    for trial in trials:
        alike.setdefault(_shown(trial), []).append(trial)
    names = {shown: _varied(members) for shown, members in alike.items()}
    return [names[_shown(trial)] for trial in trials]


def _shown(trial: Trial) -> object:
    batch = trial.device_batch, trial.worker_batch, trial.global_batch
    return trial.label, trial.mode, trial.layout.kvstore, trial.layout.devices, batch


def _varied(trials: Sequence[Trial]) -> list[str]:
    return [name for name in FIELDS if len({one.value(name) for one in trials}) > 1]


def format_fields(trial: Trial, names: Sequence[str]) -> str:
    """The trial's fields of these names: 'dtype bfloat16, gc_type 2bit'."""
    return ", ".join(f"{name} {_text(trial.value(name))}" for name in names)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        more = f" and {len(value) - _MOST} more" if len(value) > _MOST else ""
        return (" ".join(map(str, value[:_MOST])) or "none") + more
    return "none" if value in {"", None} else str(value)
