"""The options of one worker process, by upstream train_imagenet.py's names and defaults."""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass

from bench.errors import SpecError, is_whole
from bench.kvstores import COMPRESSIONS, check_compression, checked_kvstore
from bench.networks import NETWORKS, named
from bench.networks.catalogue import checked_layers
from bench.whole_trial import DTYPES


@dataclass(frozen=True, kw_only=True)
class Options:
    """What one worker does; `batch_size` is this worker's, over all its devices."""

    network: str
    num_layers: int | None
    image_shape: tuple[int, int, int]
    num_classes: int
    num_examples: int
    batch_size: int
    gpus: tuple[int, ...]
    cpus: int
    kv_store: str
    expect_workers: int
    num_epochs: int
    lr: float
    mom: float
    wd: float
    data_train: str
    data_val: str
    data_nthreads: int
    rgb_mean: tuple[float, float, float]
    rgb_std: tuple[float, float, float]
    benchmark: bool
    test_io: bool
    disp_batches: int
    dtype: str
    model_prefix: str
    windows: int
    warmup_windows: int
    steps_per_window: int
    stop_accuracy: float
    seed: int
    gc_type: str
    gc_threshold: float

    @property
    def devices(self) -> int:
        """How many devices this worker trains on."""
        return len(self.gpus) or self.cpus

    @property
    def array_dtype(self) -> str:
        """Of images and weights; bfloat16 is for what is computed from them."""
        return "float32" if self.dtype == "bfloat16" else self.dtype


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise SpecError(f"train_imagenet: {message} (--help lists the options)")


def parser() -> argparse.ArgumentParser:
    """The command line of `python -m bench.train_imagenet`."""
    made = _Parser(
        prog="python -m bench.train_imagenet",
        description="Trains an image classifier on one worker and times it window by window.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = made.add_argument
    add("--network", default="resnet", help=f"one of {', '.join(NETWORKS)}")
    add("--num-layers", type=int, help="depth, for resnet and vgg")
    add("--image-shape", help="channels,height,width (default: the network's own)")
    add("--num-classes", type=int, default=1000)
    add("--num-examples", type=int, default=0, help="images an epoch (0: count --data-train)")
    add("--batch-size", type=int, default=128, help="images a step of THIS worker, all its devices")
    add("--gpus", default="", help="for example 0,1,2; empty: CPU")
    add("--cpus", type=int, default=1, help="CPU devices where --gpus is empty")
    add("--kv-store", default="device", help="local, device, dist_sync, dist_async, ...")
    add("--expect-workers", type=int, default=0, help="fail unless the job has this many (0: any)")
    add("--num-epochs", type=int, default=80)
    add("--lr", type=float, default=0.1)
    add("--mom", type=float, default=0.9)
    add("--wd", type=float, default=1e-4)
    add("--data-train", default="", help="a .rec file, a folder of them, or files joined by ';'")
    add("--data-val", default="", help="the same for validation after each epoch")
    add("--data-nthreads", type=int, default=4, help="decoding threads")
    add("--rgb-mean", default="123.68,116.779,103.939", help="taken from each pixel")
    add("--rgb-std", default="1,1,1", help="each pixel is divided by it then")
    add("--benchmark", type=int, choices=(0, 1), default=0, help="1: synthetic data")
    add("--test-io", type=int, choices=(0, 1), default=0, help="1: only read data, no training")
    add("--disp-batches", type=int, default=20, help="say a line every so many batches")
    add("--dtype", default="float32", choices=DTYPES)
    add("--model-prefix", "--model", default="", help="save the network after each epoch")
    add("--windows", type=int, default=0, help="measure so many windows, then end (0: all epochs)")
    add("--warmup-windows", type=int, default=1, help="windows before them that do not count")
    add("--steps-per-window", type=int, default=0, help="0: 1 on CPU, 10 on GPU")
    add("--stop-accuracy", type=float, default=1.0, help="end once validation is above this")
    add("--seed", type=int, default=0)
    add("--gc-type", default="none", choices=COMPRESSIONS, help="compression of what is pushed")
    add("--gc-threshold", type=float, default=0.5, help="2bit: a gradient is 0 or as large as this")
    return made


def _whole_numbers(text: str, option: str, count: int | None = None) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(is_whole(part) for part in parts) or count not in {None, len(parts)} or not parts:
        wanted = f"{count} whole numbers" if count else "whole numbers"
        raise SpecError(f"{option}: expected {wanted} joined by commas, got {text!r}")
    return tuple(int(part) for part in parts)


def _numbers(text: str, option: str, count: int) -> tuple[float, ...]:
    try:
        found = tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        found = ()
    if len(found) != count:
        raise SpecError(f"{option}: expected {count} numbers joined by commas, got {text!r}")
    return found


def _image_shape(text: str | None, network: str) -> tuple[int, int, int]:
    if text is None:
        return NETWORKS[network].image_shape
    channels, height, width = _whole_numbers(text, "--image-shape", 3)
    if min(channels, height, width) < 1:
        raise SpecError(f"--image-shape: expected numbers of 1 or more, got {text!r}")
    return channels, height, width


def parse(argv: Sequence[str]) -> Options:
    """The options, checked; raises SpecError with one line for the person who typed them."""
    given = vars(parser().parse_args(argv))
    network, layers = named(given["network"])
    if given["num_layers"] is not None:
        layers = checked_layers(network, given["num_layers"])
    gpus = _whole_numbers(given["gpus"], "--gpus") if given["gpus"] else ()
    options = Options(
        **{
            **given,
            "network": network,
            "num_layers": layers,
            "image_shape": _image_shape(given["image_shape"], network),
            "gpus": gpus,
            "kv_store": checked_kvstore(given["kv_store"]),
            "rgb_mean": _numbers(given["rgb_mean"], "--rgb-mean", 3),
            "rgb_std": _numbers(given["rgb_std"], "--rgb-std", 3),
            "benchmark": bool(given["benchmark"]),
            "test_io": bool(given["test_io"]),
            "steps_per_window": given["steps_per_window"] or (10 if gpus else 1),
        }
    )
    return _checked(options)


def _checked(options: Options) -> Options:
    for name in ("num_classes", "cpus", "data_nthreads", "disp_batches", "num_epochs"):
        if getattr(options, name) < 1:
            raise SpecError(
                f"--{name.replace('_', '-')}: expected 1 or more, got {getattr(options, name)}"
            )
    for name in ("windows", "warmup_windows", "steps_per_window", "num_examples"):
        if getattr(options, name) < 0:
            raise SpecError(
                f"--{name.replace('_', '-')}: expected 0 or more, got {getattr(options, name)}"
            )
    if not all(map(math.isfinite, (*options.rgb_mean, *options.rgb_std))) or 0 in options.rgb_std:
        raise SpecError("--rgb-mean, --rgb-std: expected finite numbers, and none of --rgb-std 0")
    if options.batch_size < options.devices or options.batch_size % options.devices:
        raise SpecError(
            f"--batch-size: expected a positive multiple of this worker's {options.devices} "
            f"device(s), got {options.batch_size}"
        )
    if options.test_io and options.benchmark:
        raise SpecError("--test-io 1 reads real data and --benchmark 1 has none; give one of them")
    if not options.benchmark and not options.data_train:
        raise SpecError("--data-train: expected a .rec file or folder (or --benchmark 1), got none")
    if options.benchmark and not options.windows:
        raise SpecError("--benchmark 1 has no epochs to end by; say --windows N")
    if options.dtype == "float16" and not options.gpus:
        raise SpecError("--dtype float16: MXNet 1.9.1 has no float16 on CPU; use bfloat16")
    if options.dtype == "bfloat16" and options.gpus:
        raise SpecError("--dtype bfloat16: MXNet 1.9.1 has it on CPU only; use float16 on GPUs")
    if options.kv_store == "nccl" and not options.gpus:
        raise SpecError("--kv-store nccl adds up on GPUs, and --gpus names none; use device")
    check_compression(options.gc_type, options.gc_threshold, options.kv_store, options.dtype)
    return options
