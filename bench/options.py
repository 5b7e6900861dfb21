"""The options of one worker process, by upstream train_imagenet.py's names and defaults."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import augmentation
from bench.arguments import parser
from bench.errors import SpecError, is_whole, plain, quoted
from bench.kvstores import checked_kvstore
from bench.networks import NETWORKS, named
from bench.networks.catalogue import checked_layers
from bench.optimizers import checked_optimizer
from bench.schedule import Epochs, epochs
from bench.whole_options import check


@dataclass(frozen=True, kw_only=True)
class Options:
    """What one worker does; `batch_size` is this worker's, over all its devices.

    global_batch  images a step of all workers together (0: each has a `batch_size` of its own)
    lr_epochs     when the learning rate changes
    augmentation  how training images are changed at random
    load_epoch    the checkpoint of `model_prefix` to begin with (0: none)
    auto_batch    find the largest batch a device, up to so much (0: `batch_size` is given)
    costs         of a step on synthetic data besides training: "none", or "upstream"
    pretrained    checkpoint whose layers up to `layer_before_fullc` are kept (fine_tune)
    """

    network: str
    num_layers: int | None
    image_shape: tuple[int, int, int]
    num_classes: int
    initializer: str
    num_examples: int
    batch_size: int
    global_batch: int
    gpus: tuple[int, ...]
    cpus: int
    kv_store: str
    expect_workers: int
    gc_type: str
    gc_threshold: float
    num_epochs: int
    optimizer: str
    lr: float
    lr_epochs: Epochs
    mom: float
    wd: float
    data_train: str
    data_val: str
    data_nthreads: int
    rgb_mean: tuple[float, float, float]
    rgb_std: tuple[float, float, float]
    augmentation: augmentation.Augmentation
    benchmark: bool
    test_io: bool
    disp_batches: int
    monitor: int
    profile_worker_suffix: str
    profile_server_suffix: str
    dtype: str
    model_prefix: str
    save_period: int
    load_epoch: int
    val_freq: int
    top_k: int
    loss: str
    windows: int
    warmup_windows: int
    steps_per_window: int
    precision: float
    budget_seconds: float
    stop_accuracy: float
    seed: int
    pretrained: str = ""
    pretrained_epoch: int = 0
    layer_before_fullc: str = ""
    cold: bool = False
    bandwidth: bool = False
    costs: str = "none"
    auto_batch: int = 0

    @property
    def devices(self) -> int:
        """How many devices this worker trains on."""
        return len(self.gpus) or self.cpus

    @property
    def array_dtype(self) -> str:
        """Of images and weights; bfloat16 is for what is computed from them."""
        return "float32" if self.dtype == "bfloat16" else self.dtype


def _whole_numbers(text: str, option: str, count: int | None = None) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(is_whole(part) for part in parts) or count not in {None, len(parts)} or not parts:
        wanted = f"{count} whole numbers" if count else "whole numbers"
        raise SpecError(f"{option}: expected {wanted} joined by commas, got {quoted(text)}")
    return tuple(int(part) for part in parts)


def _numbers(text: str, option: str, count: int) -> tuple[float, ...]:
    try:
        found = tuple(float(plain(part)) for part in text.split(",") if part.strip())
    except ValueError:
        found = ()
    if len(found) != count:
        raise SpecError(f"{option}: expected {count} numbers joined by commas, got {quoted(text)}")
    return found


def _image_shape(text: str | None, network: str) -> tuple[int, int, int]:
    if text is None:
        return NETWORKS[network].image_shape
    channels, height, width = _whole_numbers(text, "--image-shape", 3)
    if min(channels, height, width) < 1:
        raise SpecError(f"--image-shape: expected numbers of 1 or more, got {quoted(text)}")
    return channels, height, width


def parse(argv: Sequence[str]) -> Options:
    """The options, checked; raises SpecError with one line for the person who typed them."""
    return options_of(given(parser(), argv))


def given(made: argparse.ArgumentParser, argv: Sequence[str]) -> dict[str, Any]:
    """What was typed, with defaults; ImageNet's for augmentation where it is asked for."""
    values = vars(made.parse_args(argv))
    if values.get("use_imagenet_data_augmentation"):
        made.set_defaults(**augmentation.IMAGENET)
        values = vars(made.parse_args(argv))
    return values


def options_of(typed: dict[str, Any]) -> Options:
    """The options of what was typed; raises SpecError naming the option that cannot be."""
    network, layers = named(typed["network"])
    if typed["num_layers"] is not None:
        layers = checked_layers(network, typed["num_layers"], "--num-layers")
    gpus = _whole_numbers(typed["gpus"], "--gpus") if typed["gpus"] else ()
    plain = {name: value for name, value in typed.items() if name in Options.__dataclass_fields__}
    _check_needless(typed)
    options = Options(
        **{
            **plain,
            "network": network,
            "num_layers": layers,
            "image_shape": _image_shape(typed["image_shape"], network),
            "gpus": gpus,
            "kv_store": checked_kvstore(typed["kv_store"]),
            "optimizer": checked_optimizer(typed["optimizer"]),
            "lr_epochs": _lr_epochs(typed),
            "rgb_mean": _numbers(typed["rgb_mean"], "--rgb-mean", 3),
            "rgb_std": _numbers(typed["rgb_std"], "--rgb-std", 3),
            "augmentation": augmentation.augmentation_of(typed),
            "loss": _loss(typed["loss"]),
            "benchmark": bool(typed["benchmark"]),
            "test_io": bool(typed["test_io"]),
            "cold": bool(typed.get("cold")),
            "bandwidth": bool(typed.get("bandwidth")),
            "steps_per_window": typed["steps_per_window"] or (10 if gpus else 1),
        }
    )
    check(options)
    return options


def _lr_epochs(typed: dict[str, Any]) -> Epochs:
    if typed["warmup_strategy"] == "lars" and typed["optimizer"] != "lbsgd":
        raise SpecError("--warmup-strategy lars: is a part of --optimizer lbsgd; give that too")
    if typed["warmup_epochs"] >= typed["num_epochs"] and not typed["benchmark"]:
        raise SpecError(
            f"--warmup-epochs {typed['warmup_epochs']}: expected fewer than --num-epochs "
            f"{typed['num_epochs']}, the rate would never reach --lr"
        )
    return epochs(
        typed["lr_step_epochs"],
        factor=typed["lr_factor"],
        warmup=typed["warmup_epochs"],
        strategy=typed["warmup_strategy"],
        initial_lr=typed["initial_lr"],
    )


def _loss(text: str) -> str:
    names = {"": "", "ce": "ce", "nll": "nll", "nll-loss": "nll", "nll_loss": "nll"}
    if text not in names:
        raise SpecError(f"--loss: expected ce or nll, got {quoted(text)}")
    return names[text]


def _check_needless(typed: dict[str, Any]) -> None:
    """What upstream needs to be told and this job must not be told otherwise."""
    for name in ("data_train", "data_val"):
        index = typed[f"{name}_idx"]
        if index and Path(index) != Path(typed[name]).with_suffix(".idx"):
            raise SpecError(
                f"{augmentation.flag(name)}-idx: the .idx beside each .rec file is read; put it "
                f"there and leave this out, got {quoted(index)}"
            )
    whole = typed["global_batch"] or typed["batch_size"]
    if typed["macrobatch_size"] > whole:
        raise SpecError(
            f"--macrobatch-size {typed['macrobatch_size']}: MXNet's lbsgd adds up gradients whose "
            f"memory has been used again by then; use --global-batch of that size"
        )
