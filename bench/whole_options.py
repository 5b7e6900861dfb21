"""What has to hold of a worker's options, each and together."""

from typing import TYPE_CHECKING

from bench.augmentation import flag
from bench.errors import SpecError, quoted
from bench.kvstores import check_bandwidth, check_compression, is_distributed
from bench.networks.catalogue import check_images
from bench.optimizers import MOVES_BY_ITSELF

if TYPE_CHECKING:
    from bench.options import Options


def check(options: "Options") -> None:
    """Raises SpecError where these options cannot be, each or together."""
    for name in (
        *("num_classes", "cpus", "data_nthreads", "disp_batches", "num_epochs"),
        *("save_period", "val_freq"),
    ):
        _check_least(options, name, 1)
    for name in (
        *("windows", "warmup_windows", "steps_per_window", "num_examples", "global_batch"),
        *("auto_batch", "monitor", "load_epoch", "top_k", "lr", "mom", "wd"),
        *("precision", "budget_seconds", "seed"),
    ):
        _check_least(options, name, 0)
    if (
        not all(abs(one) < 1e30 for one in (*options.rgb_mean, *options.rgb_std))
        or 0 in options.rgb_std
    ):
        raise SpecError("--rgb-mean, --rgb-std: expected finite numbers, and none of --rgb-std 0")
    _check_most(options)
    _check_arithmetic(options)
    _check_images(options)
    _check_batch(options)
    _check_training(options)
    if options.costs != "none" and (not options.benchmark or options.bandwidth):
        raise SpecError(
            f"--costs {options.costs}: expected training on synthetic images; give --benchmark 1 "
            f"and leave out --bandwidth"
        )
    if options.bandwidth and not is_distributed(options.kv_store):
        raise SpecError(
            f"--bandwidth 1 needs a store with servers (dist_...), got {quoted(options.kv_store)}"
        )
    if options.bandwidth:
        check_bandwidth(options.kv_store)
    if options.cold and not options.test_io:
        raise SpecError("--cold 1 is for --test-io 1; training reads its files once an epoch")
    if options.test_io and options.benchmark:
        raise SpecError("--test-io 1 reads real data and --benchmark 1 has none; give one of them")
    if not options.benchmark and not options.data_train:
        raise SpecError("--data-train: expected a .rec file or folder (or --benchmark 1), got none")
    if options.benchmark and not options.windows:
        raise SpecError("--benchmark 1 has no epochs to end by; say --windows N")


def _check_arithmetic(options: "Options") -> None:
    if options.dtype == "float16" and not options.gpus:
        raise SpecError("--dtype float16: MXNet 1.9.1 has no float16 on CPU; use bfloat16")
    if options.dtype == "bfloat16" and options.gpus:
        raise SpecError("--dtype bfloat16: MXNet 1.9.1 has it on CPU only; use float16 on GPUs")
    if options.kv_store == "nccl" and not options.gpus:
        raise SpecError("--kv-store nccl adds up on GPUs, and --gpus names none; use device")
    check_compression(options.gc_type, options.gc_threshold, options.kv_store, options.dtype)


def _check_images(options: "Options") -> None:
    if not options.test_io:
        check_images(options.network, options.num_layers, options.image_shape)
    if options.image_shape[0] == 1 and options.augmentation.colours:
        raise SpecError(
            f"{flag(options.augmentation.colours[0])}: grey images (--image-shape 1,...) have no "
            f"colours to change; leave it out"
        )


def _check_least(options: "Options", name: str, least: int) -> None:
    value = getattr(options, name)
    if not value >= least:
        raise SpecError(f"{flag(name)}: expected {least} or more, got {value}")


def _check_most(options: "Options") -> None:
    for name, most in (("windows", 10**9), ("warmup_windows", 10**9), ("num_classes", 10**7)):
        if getattr(options, name) > most:
            raise SpecError(f"{flag(name)}: expected at most {most}, got {getattr(options, name)}")
    if not options.precision < 1:
        raise SpecError(f"--precision: expected below 1, got {options.precision}")
    if not 0 <= options.stop_accuracy <= 1:
        raise SpecError(f"--stop-accuracy: expected 0 to 1, got {options.stop_accuracy}")


def _check_batch(options: "Options") -> None:
    if options.global_batch or options.auto_batch:
        return  # what each worker has is known once they have met, or once it was tried
    if options.batch_size < options.devices or options.batch_size % options.devices:
        raise SpecError(
            f"--batch-size: expected a positive multiple of this worker's {options.devices} "
            f"device(s), got {options.batch_size}"
        )


def _check_training(options: "Options") -> None:
    if options.load_epoch and not options.model_prefix:
        raise SpecError("--load-epoch: expected --model-prefix, which says where the files are")
    if options.load_epoch >= options.num_epochs and not options.benchmark:
        raise SpecError(
            f"--load-epoch {options.load_epoch}: epochs are counted on, and --num-epochs "
            f"{options.num_epochs} is no later; raise that"
        )
    if options.top_k > options.num_classes:
        raise SpecError(f"--top-k: expected at most --num-classes, got {options.top_k}")
    if is_distributed(options.kv_store) and options.optimizer in MOVES_BY_ITSELF:
        raise SpecError(
            f"--optimizer {options.optimizer}: draws noise on the servers, where workers could "
            f"no longer agree when to end; use --kv-store device"
        )
    if options.profile_server_suffix and not is_distributed(options.kv_store):
        raise SpecError(
            f"--profile-server-suffix: --kv-store {options.kv_store} has no servers; expected a "
            f"dist_ store"
        )
    if "/" in options.profile_server_suffix:
        raise SpecError("--profile-server-suffix: expected a plain file name, servers write there")
