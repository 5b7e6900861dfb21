"""The programs of a job on MXNet's parameter server."""

from bench.engines.server import PROFILED
from bench.trial import Trial


def command(trial: Trial, role: str, index: int) -> tuple[str, ...]:
    """Module and options of one process; workers get what a person would type."""
    if role != "worker":
        given = [one.partition("=") for one in trial.options]
        profiled = any(name == "--profile-server-suffix" and file for name, _, file in given)
        return ("-m", "bench.engines.server", *([PROFILED] if profiled else []))
    return (
        "-m",
        "bench.train_imagenet",
        *_what(trial),
        *_how_long(trial),
        *_data(trial),
        *trial.options,
    )


def _what(trial: Trial) -> tuple[str, ...]:
    layers = () if trial.num_layers is None else ("--num-layers", str(trial.num_layers))
    network = ("--network", trial.network, *layers)
    gpus = ",".join(map(str, range(trial.devices_per_worker)))
    devices = (
        ("--gpus", gpus) if trial.device == "gpu" else ("--cpus", str(trial.devices_per_worker))
    )
    fixed = trial.global_batch_fixed
    batch = ("--global-batch", str(fixed)) if fixed else ("--batch-size", str(trial.worker_batch))
    compression = ("--gc-type", trial.gc_type, "--gc-threshold", str(trial.gc_threshold))
    return (
        *network,
        *("--image-shape", ",".join(map(str, trial.image_shape))),
        *("--num-classes", str(trial.num_classes)),
        *batch,
        *devices,
        *("--kv-store", trial.kvstore),
        *("--expect-workers", str(trial.workers)),
        *("--dtype", trial.dtype),
        *("--lr", str(trial.lr), "--mom", str(trial.momentum), "--wd", str(trial.weight_decay)),
        *("--seed", str(trial.seed)),
        *(() if trial.gc_type == "none" else compression),
    )


def _how_long(trial: Trial) -> tuple[str, ...]:
    return (
        *("--windows", str(trial.windows)),
        *("--warmup-windows", str(trial.warmup_windows)),
        *("--steps-per-window", str(trial.steps_per_window)),
        *("--precision", str(trial.precision)),
        *("--budget-seconds", str(trial.budget_seconds)),
    )


def _data(trial: Trial) -> tuple[str, ...]:
    if trial.mode == "synthetic":
        return ("--benchmark", "1", *(() if trial.costs == "none" else ("--costs", trial.costs)))
    if trial.mode == "bandwidth":
        return ("--benchmark", "1", "--bandwidth", "1")
    reading = (
        *("--data-train", trial.data_train),
        *("--data-nthreads", str(trial.data_nthreads)),
        *("--rgb-mean", ",".join(map(str, trial.rgb_mean))),
        *("--rgb-std", ",".join(map(str, trial.rgb_std))),
    )
    if trial.mode == "test-io":
        return ("--test-io", "1", *(("--cold", "1") if trial.cold else ()), *reading)
    validation = ("--data-val", trial.data_val) if trial.data_val else ()
    return (
        *reading,
        *validation,
        *("--num-examples", str(trial.num_examples)),
        *("--num-epochs", str(trial.num_epochs)),
        *("--stop-accuracy", str(trial.stop_accuracy)),
    )
