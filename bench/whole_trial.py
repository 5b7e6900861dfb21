"""What has to hold of a trial as a whole."""

from typing import TYPE_CHECKING

from bench.arguments import COSTS, DTYPES
from bench.errors import SpecError, quoted
from bench.kvstores import check_bandwidth, check_compression, is_distributed
from bench.networks.catalogue import check_images
from bench.options import parse
from bench.secrets import Hidden

if TYPE_CHECKING:
    from bench.trial import Trial

MODES = ("synthetic", "real", "test-io", "bandwidth")
DEVICE_KINDS = ("cpu", "gpu")
MOST_DEVICES = 10_000
_MOST_EDGE = 1 << 16  # pixels, which is JPEG's
# What an engine says of a trial's fields; anything else may stand in `options`.
OF_FIELDS = frozenset(
    f"--{name}"
    for name in (
        *("network", "num-layers", "image-shape", "num-classes", "batch-size", "global-batch"),
        "auto-batch",
        *("gpus", "cpus", "kv-store", "expect-workers", "dtype", "lr", "mom", "wd", "seed"),
        *("windows", "warmup-windows", "steps-per-window", "benchmark", "test-io"),
        *("data-train", "data-val", "data-nthreads", "rgb-mean", "rgb-std", "num-examples"),
        *("cold", "bandwidth", "costs"),
        *("num-epochs", "stop-accuracy", "precision", "budget-seconds", "gc-type", "gc-threshold"),
    )
)


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise SpecError(f"{name}: expected one of {', '.join(known)}, got {quoted(value)}")


def check(trial: "Trial") -> None:
    """Raises SpecError naming the field that cannot be, what was expected and what it is."""
    _one_of("mode", trial.mode, MODES)
    _one_of("device", trial.device, DEVICE_KINDS)
    _one_of("dtype", trial.dtype, DTYPES)
    _one_of("costs", trial.costs, COSTS)
    if trial.costs != "none" and trial.mode != "synthetic":
        raise SpecError(f"costs: expected mode 'synthetic', got {quoted(trial.mode)}")
    at_least_one = (
        "devices devices_per_worker devices_per_host steps_per_window num_classes num_epochs "
        "data_nthreads"
    )
    for name in at_least_one.split():
        if getattr(trial, name) < 1:
            raise SpecError(f"{name}: expected 1 or more, got {getattr(trial, name)}")
    for name in (
        "servers_per_host",
        "server_hosts",
        "batch_per_device",
        "global_batch_fixed",
        "warmup_windows",
        "windows",
        "num_examples",
        "seed",
        "precision",
        "budget_seconds",
        "lr",
        "momentum",
        "weight_decay",
    ):
        if getattr(trial, name) < 0:
            raise SpecError(f"{name}: expected 0 or more, got {getattr(trial, name)}")
    _check_most(trial)
    _check_arithmetic(trial)
    if trial.precision >= 1:
        raise SpecError(f"precision: expected a part of the rate, below 1, got {trial.precision}")
    if "\0" in trial.python:
        raise SpecError(f"python: expected a path, got {quoted(trial.python)}")
    for setting in trial.env:
        _check_setting(setting)
    names = [setting.partition("=")[0] for setting in trial.env]
    if len(set(names)) < len(names):
        raise SpecError(f"env: expected each name once, got {', '.join(names)}")
    if "DMLC_LOCAL" in names and trial.hosts > 1:
        raise SpecError(f"env: DMLC_LOCAL joins processes of one host, and there are {trial.hosts}")
    _check_images(trial)
    _check_layout(trial)
    _check_batch(trial)
    _check_options(trial)
    _check_data(trial)
    _check_played(trial)


def _check_most(trial: "Trial") -> None:
    """Raises SpecError for a number that would make more than any job has."""
    most = {
        "devices": MOST_DEVICES,
        "devices_per_host": MOST_DEVICES,
        "devices_per_worker": MOST_DEVICES,
        "server_hosts": MOST_DEVICES,
        "servers_per_host": MOST_DEVICES,
        "servers": MOST_DEVICES,
        "data_nthreads": MOST_DEVICES,
        "num_classes": 10**7,
        "windows": 10**9,
        "warmup_windows": 10**9,
        "steps_per_window": 10**9,
        "num_epochs": 10**9,
        "seed": 2**32 - 1,
    }
    for name, largest in most.items():
        if getattr(trial, name) > largest:
            raise SpecError(f"{name}: expected {largest} or fewer, got {getattr(trial, name)}")
    if max(trial.image_shape, default=0) > _MOST_EDGE:
        raise SpecError(f"image_shape: expected {_MOST_EDGE} or less, got {trial.image_shape}")


def _check_played(trial: "Trial") -> None:
    played = trial.faults or trial.fake_seconds or trial.fake_noise or trial.fake_spread
    if played and trial.engine != "fake":
        raise SpecError(
            "fake_seconds, fake_faults, fake_noise and fake_spread need engine = 'fake' "
            "(--engine fake)"
        )
    if any(seconds <= 0 for seconds in trial.fake_seconds):
        raise SpecError(f"fake_seconds: expected seconds above 0, got {list(trial.fake_seconds)}")
    for name in ("fake_noise", "fake_correlation", "fake_spread"):
        if not 0 <= getattr(trial, name) < 1:
            raise SpecError(f"{name}: expected 0 or more, below 1, got {getattr(trial, name)}")


def _check_arithmetic(trial: "Trial") -> None:
    if trial.dtype == "float16" and trial.device == "cpu":
        raise SpecError("dtype: MXNet 1.9.1 has no float16 on CPU; use bfloat16 or device = 'gpu'")
    if trial.dtype == "bfloat16" and trial.device == "gpu":
        raise SpecError("dtype: MXNet 1.9.1 has bfloat16 on CPU only; use float16 on GPUs")
    if trial.kvstore == "nccl" and trial.device == "cpu":
        raise SpecError("kvstore: nccl adds up on GPUs; use device, or device = 'gpu'")
    check_compression(trial.gc_type, trial.gc_threshold, trial.kvstore, trial.dtype)


def _check_setting(text: str) -> None:
    name, equals, _ = text.partition("=")
    value = text.value or "" if isinstance(text, Hidden) else text
    if not (name.isascii() and name.isidentifier()) or "\0" in value:
        shown = repr(str(text)) if equals else "a word that is neither"
        raise SpecError(f"env: expected NAME=VALUE or NAME, got {shown}")
    if name.startswith("DMLC_") and name != "DMLC_LOCAL":
        raise SpecError(f"env: {name} is set by what starts the job; leave it out")


def _check_images(trial: "Trial") -> None:
    if min(trial.rgb_std, default=0) <= 0:
        raise SpecError(f"rgb_std: expected numbers above 0, got {list(trial.rgb_std)}")
    if len(trial.image_shape) != 3 or min(trial.image_shape) < 1:
        raise SpecError(f"image_shape: expected channels, height, width, got {trial.image_shape}")
    for name in ("rgb_mean", "rgb_std"):
        if len(getattr(trial, name)) != 3:
            raise SpecError(f"{name}: expected 3 numbers, got {len(getattr(trial, name))}")
    if trial.mode != "test-io":
        check_images(trial.network, trial.num_layers, trial.image_shape)


def _check_layout(trial: "Trial") -> None:
    if trial.devices % trial.devices_per_worker:
        raise SpecError(
            f"devices: {trial.devices} cannot be shared by workers of {trial.devices_per_worker} "
            f"devices; expected a multiple"
        )
    if trial.devices_per_worker > trial.devices_per_host:
        raise SpecError(
            f"devices_per_worker: {trial.devices_per_worker} is more than a host's "
            f"{trial.devices_per_host} (devices_per_host)"
        )
    if trial.worker_hosts > 1 and trial.devices_per_host % trial.devices_per_worker:
        raise SpecError(
            f"devices_per_worker: {trial.devices_per_worker} does not divide a host's "
            f"{trial.devices_per_host} devices"
        )
    if trial.workers > 1 and not is_distributed(trial.kvstore):
        raise SpecError(
            f"devices: {trial.devices} need {trial.workers} workers, and kvstore "
            f"{quoted(trial.kvstore)} has one; use a dist_ store or at most "
            f"{trial.devices_per_worker}"
        )


def _check_batch(trial: "Trial") -> None:
    fixed = trial.global_batch_fixed
    if not fixed and trial.batch_per_device < 1:
        raise SpecError(f"batch_per_device: expected 1 or more, got {trial.batch_per_device}")
    if fixed and trial.batch_per_device:
        raise SpecError(
            f"global_batch_fixed: {fixed} and batch_per_device {trial.batch_per_device} cannot "
            f"both be; give one of them (--auto-batch finds the latter)"
        )
    if fixed and fixed // trial.workers < trial.devices_per_worker:
        raise SpecError(
            f"global_batch_fixed: expected an image or more for each of {trial.devices} devices, "
            f"got {fixed}"
        )


def _check_options(trial: "Trial") -> None:
    """Options of workers are checked here as a worker checks them, and are no field's."""
    if not trial.options:
        return
    for option in trial.options:
        name, equals, _ = option.partition("=")
        if not name.startswith("--") or not equals:
            raise SpecError(f"options: expected --NAME=VALUE, got {quoted(option)}")
        if name in OF_FIELDS:
            raise SpecError(f"options: {name} follows from the trial's own fields; set those")
    try:
        parse(["--benchmark=1", "--windows=1", f"--kv-store={trial.kvstore}", *trial.options])
    except SpecError as error:
        raise SpecError(f"options: {error}") from error


def _check_data(trial: "Trial") -> None:
    reads = trial.mode in {"real", "test-io"}
    if not reads and (trial.data_train or trial.data_val):
        raise SpecError(f"data_train, data_val: {trial.mode} mode reads no data; use mode = 'real'")
    if reads and not trial.data_train:
        raise SpecError(f"data_train: mode {quoted(trial.mode)} expects .rec files, it is missing")
    if not reads and trial.windows == 0:
        raise SpecError("windows: synthetic data has no epochs to end by; expected 1 or more")
    if trial.mode == "bandwidth" and not (
        is_distributed(trial.kvstore) and trial.devices_per_worker == 1
    ):
        raise SpecError(
            f"mode: bandwidth is of a store with servers (dist_...) and workers of one device, got "
            f"{quoted(trial.kvstore)} and {trial.devices_per_worker}"
        )
    if trial.mode == "bandwidth":
        check_bandwidth(trial.kvstore)
    if trial.cold and trial.mode != "test-io":
        raise SpecError(f"cold: expected mode 'test-io', got {quoted(trial.mode)}")
    if trial.mode == "test-io" and is_distributed(trial.kvstore):
        raise SpecError(f"kvstore: test-io reads in one process, got {quoted(trial.kvstore)}")
    if trial.mode == "test-io" and trial.devices != 1:
        raise SpecError(
            f"devices: test-io is measured on one host's processors, got {trial.devices}"
        )
