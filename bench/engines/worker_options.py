"""The options of a worker that trains by the shared loop, from a trial."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bench.errors import SpecError, error_line, quoted
from bench.settings.modes import MODE_OPTIONS, NEEDS
from bench.settings.parts import PART_FIELDS
from bench.training.options import parse

if TYPE_CHECKING:
    from bench.trial import Trial

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
# Options that follow from a trial's fields; its `options` may hold any other.
OF_FIELDS = frozenset(
    {
        *(field.setting.flag for field in PART_FIELDS.values() if field.setting.flag),
        *("--batch-size", "--global-batch", "--auto-batch", "--gpus", "--cpus"),
        *("--expect-workers", "--benchmark", "--test-io", "--bandwidth", "--engine"),
    }
)


def worker_options(trial: "Trial") -> tuple[str, ...]:
    """Return the options of every worker of a trial, as a user would type them."""
    return (
        *(("--engine", trial.engine) if trial.engine == "torch" else ()),
        *_arguments(trial, "model"),
        *_batch_and_devices(trial),
        *_arguments(trial, "layout"),
        *("--expect-workers", str(trial.workers)),
        *_arguments(trial, "training"),
        *_arguments(trial, "measuring"),
        *_MODES[trial.mode],
        *_arguments(trial, "mxnet"),
        *_arguments(trial, "torch"),
        *_arguments(trial, "data"),
        *trial.mxnet.options,
    )


def _arguments(trial: "Trial", part: str) -> Iterator[str]:
    """Yield the worker options of a part's settings."""
    fields = [field for field in PART_FIELDS.values() if field.part == part and field.setting.flag]
    fields.sort(key=lambda one: _FIRST.index(one.name) if one.name in _FIRST else len(_FIRST))
    for field in fields:
        value, known = trial.value(field.name), field.setting
        usual = known.unless and trial.value(known.unless) == PART_FIELDS[known.unless].default
        endless = field.option in _OF_WINDOWS and not trial.measuring.windows
        if value is not None and trial.mode in known.modes and not (usual or endless):
            yield from (known.flag, _text(value))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _batch_and_devices(trial: "Trial") -> tuple[str, ...]:
    each, fixed = trial.layout.devices_per_worker, trial.training.global_batch_fixed
    whole = fixed and trial.mode in {"synthetic", "real"}
    batch = ("--global-batch", str(fixed)) if whole else ("--batch-size", str(trial.worker_batch))
    gpus = ("--gpus", ",".join(map(str, range(each))))
    return (*batch, *(gpus if trial.layout.device == "gpu" else ("--cpus", str(each))))


def check_options(trial: "Trial", engine: tuple[str, ...] = ()) -> None:
    """Check further worker options as a worker does; none may duplicate a field."""
    own = trial.program
    given = {"command": own.command, "format": own.format, "printers": own.printers > 1}
    for name, is_given in given.items():
        if is_given and not trial.scripted:
            got, fix = quoted(trial.engine), "Set engine = 'command', or leave it out"
            raise SpecError(error_line(name, expected="engine 'command'", got=got, fix=fix))
    _check_threshold(trial)
    if not trial.mxnet.options:
        return
    for option in trial.mxnet.options:
        name, equals, _ = option.partition("=")
        if not name.startswith("--") or not equals:
            raise SpecError(error_line("options", expected="--NAME=VALUE", got=quoted(option)))
        if name in OF_FIELDS:
            field = next((one for one, f in PART_FIELDS.items() if f.setting.flag == name), "")
            problem = f"a field of the trial determines {name}"
            fix = f"Set the field {field or 'instead'}"
            raise SpecError(error_line("options", problem=problem, fix=fix))
    store = () if trial.mode == "test-io" else (f"--kv-store={trial.layout.kvstore}",)
    val = ("--data-val=.",) if trial.data.val else ()
    mode = (*MODE_OPTIONS[trial.mode], f"--windows={trial.measuring.windows}")
    try:
        parse([*engine, *mode, *store, *val, *trial.mxnet.options])
    except SpecError as error:
        raise SpecError(error_line("options", problem=str(error))) from error


def _check_threshold(trial: "Trial") -> None:
    """Raise SpecError if another compression than 2bit has a threshold.

    Without compression it is accepted: points with and without it may share a table.
    """
    training, usual = trial.training, PART_FIELDS["gc_threshold"].default
    if training.gc_type not in {"none", "2bit"} and training.gc_threshold != usual:
        got, fix = quoted(training.gc_type), "Leave gc_threshold out"
        raise SpecError(error_line("gc_threshold", expected="gc_type '2bit'", got=got, fix=fix))
