"""The parts of a trial, their fields by stored name, and the worker's options."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.data import DATA
from bench.engines.options import FakeOptions, MxnetOptions, ProgramOptions, TorchOptions
from bench.kvstores import COMPRESSIONS, HOOKS
from bench.networks import NETWORKS
from bench.settings.declaration import Field, Role, fields_of, setting

MODES = ("synthetic", "real", "test-io", "bandwidth")
DEVICE_KINDS = ("cpu", "gpu")
DTYPES = ("float32", "float16", "bfloat16")
MOST_DEVICES = 10_000
_MOST = 10**9
_MOST_EDGE = 1 << 16  # pixels, which is JPEG's
_READING = ("real", "test-io")
_TRAINING = ("synthetic", "real")
_EXCHANGING = ("synthetic", "real", "bandwidth")


@dataclass(frozen=True, kw_only=True)
class Model:
    """The network and the shape of its input and output."""

    network: str = setting(
        f"Network: {', '.join(NETWORKS)}", metavar="NAME", flag="--network", typed="resnet"
    )
    num_layers: int | None = setting(
        "Depth of resnet, resnet-v1, resnext and vgg",
        metavar="N",
        empty="the network's own",
        flag="--num-layers",
        modes=_EXCHANGING,
        typed=None,
    )
    image_shape: tuple[int, ...] = setting(
        "Channels, height and width of the input",
        metavar="C,H,W",
        empty="the network's own",
        most=_MOST_EDGE,
        flag="--image-shape",
        typed=None,
    )
    num_classes: int = setting(
        "Number of classes; labels count from 0",
        1000,
        metavar="N",
        least=1,
        most=10**7,
        flag="--num-classes",
    )


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Devices, processes, their environment and the kvstore."""

    kvstore: str = setting(
        "Gradient exchange: local, device, dist_sync, dist_async, ...",
        "local",
        metavar="NAME",
        role=Role.SCALED,
        flag="--kv-store",
        modes=_EXCHANGING,
        typed="device",
    )
    device: str = setting("Kind of devices to train on", "cpu", choices=DEVICE_KINDS)
    devices: int = setting(
        "Devices of the whole job", 1, least=1, most=MOST_DEVICES, role=Role.SCALED
    )
    devices_per_worker: int = setting(
        "Devices of each worker process", least=1, most=MOST_DEVICES, role=Role.SCALED
    )
    devices_per_host: int = setting(
        "Devices of a full host in this sweep", least=1, most=MOST_DEVICES, role=Role.SCALED
    )
    servers_per_host: int = setting(
        "Server processes per host; 0 starts one per worker",
        0,
        least=0,
        most=MOST_DEVICES,
        role=Role.SERVERS,
    )
    server_hosts: int = setting(
        "Number of hosts that run servers only, listed after those of the workers",
        0,
        least=0,
        most=MOST_DEVICES,
        role=Role.SERVERS,
    )
    emulate: bool = setting(
        "Let workers share GPUs if a host has fewer than the point needs (oversubscribed)", False
    )
    env: tuple[str, ...] = setting(
        "Environment of every process: NAME=VALUE, or NAME to pass its value on the controller; "
        "secrets are not recorded",
        (),
    )


@dataclass(frozen=True, kw_only=True)
class Training:
    """The arithmetic of a step: batch, data type, optimizer, compression."""

    batch_per_device: int = setting(
        "Images per step and device; 0 with global_batch_fixed", least=0
    )
    global_batch_fixed: int = setting(
        "Images per step of the whole job (strong scaling); 0 uses batch_per_device", 0, least=0
    )
    dtype: str = setting(
        "Compute data type", "float32", choices=DTYPES, flag="--dtype", modes=_TRAINING
    )
    lr: float = setting(
        "Learning rate; the default suits a global batch of a few hundred images",
        0.01,
        metavar="RATE",
        least=0,
        flag="--lr",
        modes=_TRAINING,
        typed=0.1,
    )
    momentum: float = setting(
        "Momentum, for optimizers that have one",
        0.9,
        metavar="FACTOR",
        least=0,
        flag="--mom",
        modes=_TRAINING,
    )
    weight_decay: float = setting(
        "Weight decay", 1e-4, metavar="FACTOR", least=0, flag="--wd", modes=_TRAINING
    )
    seed: int = setting(
        "Seed of initial weights, image order and augmentation",
        0,
        metavar="N",
        least=0,
        most=2**32 - 1,
        flag="--seed",
        modes=(*_TRAINING, "test-io"),
    )
    gc_type: str = setting(
        "Gradient compression",
        "none",
        role=Role.SERVERS,
        choices=(*COMPRESSIONS, *HOOKS),
        flag="--gc-type",
        modes=_EXCHANGING,
        unless="gc_type",
    )
    gc_threshold: float = setting(
        "Threshold of 2bit gradient compression",
        0.5,
        metavar="VALUE",
        role=Role.SERVERS,
        flag="--gc-threshold",
        modes=_EXCHANGING,
        unless="gc_type",
    )


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Windows of steps, and the rules for stopping."""

    steps_per_window: int = setting(
        "Steps timed together as one window; 0 is 1 on CPU, 10 on GPU",
        metavar="N",
        least=1,
        most=_MOST,
        flag="--steps-per-window",
        modes=_EXCHANGING,
        typed=0,
    )
    warmup_windows: int = setting(
        "First windows to discard",
        1,
        metavar="N",
        role=Role.MEASURING,
        least=0,
        most=_MOST,
        flag="--warmup-windows",
    )
    windows: int = setting(
        "Maximum number of windows after warm-up; 0 runs all epochs",
        60,
        metavar="N",
        role=Role.MEASURING,
        least=0,
        most=_MOST,
        flag="--windows",
        typed=0,
    )
    precision: float = setting(
        "Stop when the 95 % CI half-width is below this fraction of the throughput; 0 runs every "
        "window",
        0.02,
        metavar="FRACTION",
        role=Role.MEASURING,
        least=0,
        below=1,
        flag="--precision",
        typed=0.0,
    )
    budget_seconds: float = setting(
        "Stop when the windows after warm-up have taken this long; 0 sets no limit",
        300.0,
        metavar="SECONDS",
        unit="s",
        role=Role.MEASURING,
        least=0,
        flag="--budget-seconds",
        typed=0.0,
    )


@dataclass(frozen=True, kw_only=True)
class Data:
    """Image files, how they are read, and the number of epochs."""

    num_epochs: int = setting(
        "Number of the last epoch, counting those before --load-epoch",
        80,
        metavar="N",
        least=1,
        most=_MOST,
        flag="--num-epochs",
        modes=("real",),
    )
    num_examples: int = setting(
        "Images per epoch; 0 counts those of --data-train, and is 1281167 with --benchmark 1",
        0,
        metavar="N",
        least=0,
        flag="--num-examples",
        modes=("real",),
    )
    stop_accuracy: float = setting(
        "Stop when the validation accuracy exceeds this fraction",
        1.0,
        metavar="FRACTION",
        flag="--stop-accuracy",
        modes=("real",),
    )
    train: str = setting(
        f"Training shards: {DATA}",
        "",
        metavar="PATH",
        empty="none",
        stored="data_train",
        role=Role.ORIGIN,
        flag="--data-train",
        modes=_READING,
    )
    val: str = setting(
        "Validation shards, in the same form; used after each epoch",
        "",
        metavar="PATH",
        empty="none",
        stored="data_val",
        role=Role.ORIGIN,
        flag="--data-val",
        modes=("real",),
        unless="data_val",
    )
    nthreads: int = setting(
        "Decoding threads",
        4,
        metavar="N",
        stored="data_nthreads",
        least=1,
        most=MOST_DEVICES,
        flag="--data-nthreads",
        modes=_READING,
    )
    prefetch_buffer: int = setting(
        "Batches decoded ahead; each takes the memory of its images",
        2,
        metavar="N",
        least=1,
        most=10_000,
        flag="--prefetch-buffer",
        modes=_READING,
        unless="prefetch_buffer",
        later=True,
        sparse=True,
    )
    rgb_mean: tuple[float, ...] = setting(
        "Mean subtracted from each channel",
        (123.68, 116.779, 103.939),
        metavar="R,G,B",
        flag="--rgb-mean",
        modes=_READING,
    )
    rgb_std: tuple[float, ...] = setting(
        "Standard deviation that each channel is then divided by",
        (1.0, 1.0, 1.0),
        metavar="R,G,B",
        flag="--rgb-std",
        modes=_READING,
    )


# The parts of a trial by attribute, in the order of records.
PARTS: dict[str, type] = {
    "model": Model,
    "layout": Layout,
    "training": Training,
    "measuring": Measurement,
    "data": Data,
    "mxnet": MxnetOptions,
    "torch": TorchOptions,
    "program": ProgramOptions,
    "fake": FakeOptions,
}
PART_FIELDS: dict[str, Field] = {
    field.name: field for name, part in PARTS.items() for field in fields_of(part, name)
}


def add_options(add: Callable[..., Any], *names: str) -> None:
    """Add the worker's options for these settings; `add` is an add_argument."""
    for name in names:
        known, kind = PART_FIELDS[name].setting, PART_FIELDS[name].type
        default = PART_FIELDS[name].default if known.typed is ... else known.typed
        choices: tuple[Any, ...] = known.choices
        if kind is bool:
            kind, default, choices = int, int(default), (0, 1)
        elif isinstance(default, tuple):
            default = ",".join(f"{one:g}" for one in default)
        plain = int if kind == int | None else kind if kind in {int, float} else None
        brackets = f"%(default)s {known.unit}" if known.unit else known.empty
        add(
            known.flag,
            type=plain,
            default=default,
            choices=choices or None,
            metavar=(not choices and known.metavar) or None,
            help=known.help.replace("%", "%%") + (f" [{brackets}]" if brackets else ""),
        )


def add_other_options(made: argparse.ArgumentParser) -> None:
    """Add the options of all settings that the parser has no option for."""
    there = vars(made.parse_args([]))
    others = [name for name, one in PART_FIELDS.items() if one.option and one.option not in there]
    if others:
        add_options(made.add_argument_group("Other settings").add_argument, *others)
