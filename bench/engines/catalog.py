"""The engines by name: `mxnet` trains; `fake` simulates window times and faults."""

import json
from collections.abc import Iterator

from bench.engines.server import PROFILED
from bench.settings.modes import NEEDS
from bench.trial import FIELDS, Trial


def _mxnet_command(trial: Trial, role: str, index: int) -> tuple[str, ...]:
    """Return module and options of one process; a worker's are those typed by hand."""
    if role != "worker":
        given = [one.partition("=") for one in trial.mxnet.options]
        profiled = any(name == "--profile-server-suffix" and file for name, _, file in given)
        return ("-m", "bench.engines.server", *([PROFILED] if profiled else []))
    return (
        *("-m", "bench.train_imagenet"),
        *_arguments(trial, "model"),
        *_batch_and_devices(trial),
        *_arguments(trial, "layout"),
        *("--expect-workers", str(trial.workers)),
        *_arguments(trial, "training"),
        *_arguments(trial, "measuring"),
        *_MODES[trial.mode],
        *_arguments(trial, "mxnet"),
        *_arguments(trial, "data"),
        *trial.mxnet.options,
    )


_MODES: dict[str, tuple[str, ...]] = {
    "synthetic": ("--benchmark", "1"),
    "bandwidth": ("--benchmark", "1", "--bandwidth", "1"),
    "test-io": ("--test-io", "1"),
    "real": (),
}
# For commands equal to those of older records, these come first in their part.
_FIRST = (
    *("windows", "warmup_windows", "data_train", "data_nthreads", "rgb_mean", "rgb_std"),
    *("data_val", "num_examples"),
)


# Training without windows has no use for these.
_OF_WINDOWS = {name for name, need in NEEDS.items() if need == "windows"}


def _arguments(trial: Trial, part: str) -> Iterator[str]:
    """Yield the worker options of a part's settings."""
    fields = [field for field in FIELDS.values() if field.part == part and field.setting.flag]
    fields.sort(key=lambda one: _FIRST.index(one.name) if one.name in _FIRST else len(_FIRST))
    for field in fields:
        value, known = trial.value(field.name), field.setting
        usual = known.unless and trial.value(known.unless) == FIELDS[known.unless].default
        endless = field.option in _OF_WINDOWS and not trial.measuring.windows
        if value is not None and trial.mode in known.modes and not (usual or endless):
            yield from (known.flag, _text(value))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _batch_and_devices(trial: Trial) -> tuple[str, ...]:
    each, fixed = trial.layout.devices_per_worker, trial.training.global_batch_fixed
    whole = fixed and trial.mode in {"synthetic", "real"}
    batch = ("--global-batch", str(fixed)) if whole else ("--batch-size", str(trial.worker_batch))
    gpus = ("--gpus", ",".join(map(str, range(each))))
    return (*batch, *(gpus if trial.layout.device == "gpu" else ("--cpus", str(each))))


def _fake_command(trial: Trial, role: str, index: int) -> tuple[str, ...]:
    """Return module and script of a simulated process.

    The script is one JSON argument.
    """
    script = {
        "steps": trial.measuring.steps_per_window,
        "windows": trial.scripted_windows,
        "warmup_windows": trial.measuring.warmup_windows,
        "precision": trial.measuring.precision,
        "budget_seconds": trial.measuring.budget_seconds,
        "worker_batches": list(trial.worker_batches),
        "seconds": list(trial.fake.seconds or (1.0,)),
        "noise": [trial.fake.noise, trial.fake.correlation, trial.fake.spread],
        "seed": trial.key,
        "asynchronous": trial.asynchronous,
        "faults": {one.kind: one.window for one in trial.faults if one.is_in(role, index)},
    }
    # Goldens hold the argument of points without these.
    if trial.mode == "real":
        script["reads"] = True
    if once := [one.kind for one in trial.faults if one.first_try and one.is_in(role, index)]:
        script["once"] = once
    return ("-m", "bench.engines.fake_process", json.dumps(script))


# command(trial, role, index): the interpreter's arguments that start the process.
ENGINES = {"mxnet": _mxnet_command, "fake": _fake_command}
