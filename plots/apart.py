"""What tells points apart whose rows would look the same."""

from collections.abc import Sequence

from bench.trial import FIELDS, Trial


def apart(trials: Sequence[Trial]) -> list[str]:
    """For each trial, the fields in which it differs from those that share its label and layout.

    'dtype bfloat16, gc_type 2bit'; empty for a trial that shares them with none.
    """
    alike: dict[object, list[Trial]] = {}
    for trial in trials:
        alike.setdefault(_shown(trial), []).append(trial)
    return [_differing(trial, alike[_shown(trial)]) for trial in trials]


def _shown(trial: Trial) -> object:
    batch = trial.device_batch, trial.worker_batch, trial.global_batch
    return trial.label, trial.mode, trial.kvstore, trial.devices, batch


def _differing(trial: Trial, others: Sequence[Trial]) -> str:
    names = [name for name in FIELDS if len({getattr(one, name) for one in others}) > 1]
    return said(trial, names)


def said(trial: Trial, names: Sequence[str]) -> str:
    """The trial's fields of these names: 'dtype bfloat16, gc_type 2bit'."""
    return ", ".join(f"{name} {_text(getattr(trial, name))}" for name in names)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value)) or "none"
    return "none" if value in {"", None} else str(value)
