"""The programs of a job on MXNet's parameter server."""

from collections.abc import Iterator

from bench.engines.server import PROFILED
from bench.trial import FIELDS, Trial


def command(trial: Trial, role: str, index: int) -> tuple[str, ...]:
    """Module and options of one process; workers get what a person would type."""
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
# Commands of earlier records have these before the other settings of their part.
_FIRST = (
    *("windows", "warmup_windows", "data_train", "data_nthreads", "rgb_mean", "rgb_std"),
    *("data_val", "num_examples"),
)


def _arguments(trial: Trial, part: str) -> Iterator[str]:
    """The settings of a part that a worker has options for."""
    fields = [field for field in FIELDS.values() if field.part == part and field.setting.flag]
    fields.sort(key=lambda one: _FIRST.index(one.name) if one.name in _FIRST else len(_FIRST))
    for field in fields:
        value, known = trial.value(field.name), field.setting
        usual = known.unless and trial.value(known.unless) == FIELDS[known.unless].default
        if value is not None and trial.mode in known.modes and not usual:
            yield from (known.flag, _text(value))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _batch_and_devices(trial: Trial) -> tuple[str, ...]:
    each, fixed = trial.layout.devices_per_worker, trial.training.global_batch_fixed
    batch = ("--global-batch", str(fixed)) if fixed else ("--batch-size", str(trial.worker_batch))
    gpus = ("--gpus", ",".join(map(str, range(each))))
    return (*batch, *(gpus if trial.layout.device == "gpu" else ("--cpus", str(each))))
