"""The programs of a job on MXNet's parameter server."""

from bench.engines.server import PROFILED
from bench.trial import Trial


def command(trial: Trial, role: str, index: int) -> tuple[str, ...]:
    """Module and options of one process; workers get what a person would type."""
    if role != "worker":
        given = [one.partition("=") for one in trial.mxnet.options]
        profiled = any(name == "--profile-server-suffix" and file for name, _, file in given)
        return ("-m", "bench.engines.server", *([PROFILED] if profiled else []))
    return (
        "-m",
        "bench.train_imagenet",
        *_what(trial),
        *_how_long(trial),
        *_data(trial),
        *trial.mxnet.options,
    )


def _what(trial: Trial) -> tuple[str, ...]:
    layers = () if trial.model.num_layers is None else ("--num-layers", str(trial.model.num_layers))
    network = ("--network", trial.model.network, *layers)
    gpus = ",".join(map(str, range(trial.layout.devices_per_worker)))
    devices = (
        ("--gpus", gpus)
        if trial.layout.device == "gpu"
        else ("--cpus", str(trial.layout.devices_per_worker))
    )
    fixed = trial.training.global_batch_fixed
    batch = ("--global-batch", str(fixed)) if fixed else ("--batch-size", str(trial.worker_batch))
    compression = (
        "--gc-type",
        trial.training.gc_type,
        "--gc-threshold",
        str(trial.training.gc_threshold),
    )
    return (
        *network,
        *("--image-shape", ",".join(map(str, trial.model.image_shape))),
        *("--num-classes", str(trial.model.num_classes)),
        *batch,
        *devices,
        *("--kv-store", trial.layout.kvstore),
        *("--expect-workers", str(trial.workers)),
        *("--dtype", trial.training.dtype),
        *(
            "--lr",
            str(trial.training.lr),
            "--mom",
            str(trial.training.momentum),
            "--wd",
            str(trial.training.weight_decay),
        ),
        *("--seed", str(trial.training.seed)),
        *(() if trial.training.gc_type == "none" else compression),
    )


def _how_long(trial: Trial) -> tuple[str, ...]:
    return (
        *("--windows", str(trial.measuring.windows)),
        *("--warmup-windows", str(trial.measuring.warmup_windows)),
        *("--steps-per-window", str(trial.measuring.steps_per_window)),
        *("--precision", str(trial.measuring.precision)),
        *("--budget-seconds", str(trial.measuring.budget_seconds)),
    )


def _data(trial: Trial) -> tuple[str, ...]:
    if trial.mode == "synthetic":
        return (
            "--benchmark",
            "1",
            *(() if trial.mxnet.costs == "none" else ("--costs", trial.mxnet.costs)),
        )
    if trial.mode == "bandwidth":
        return ("--benchmark", "1", "--bandwidth", "1")
    reading = (
        *("--data-train", trial.data.train),
        *("--data-nthreads", str(trial.data.nthreads)),
        *("--rgb-mean", ",".join(map(str, trial.data.rgb_mean))),
        *("--rgb-std", ",".join(map(str, trial.data.rgb_std))),
    )
    if trial.mode == "test-io":
        return ("--test-io", "1", *(("--cold", "1") if trial.mxnet.cold else ()), *reading)
    validation = ("--data-val", trial.data.val) if trial.data.val else ()
    return (
        *reading,
        *validation,
        *("--num-examples", str(trial.data.num_examples)),
        *("--num-epochs", str(trial.data.num_epochs)),
        *("--stop-accuracy", str(trial.data.stop_accuracy)),
    )
