"""The parts of a trial, their fields by stored name, and the worker's options for them."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.engines.options import FakeOptions, MxnetOptions
from bench.kvstores import COMPRESSIONS
from bench.networks import NETWORKS
from bench.settings.declaration import Field, Role, fields_of, setting

MODES = ("synthetic", "real", "test-io", "bandwidth")
DEVICE_KINDS = ("cpu", "gpu")
DTYPES = ("float32", "float16", "bfloat16")
MOST_DEVICES = 10_000
DATA = "a .rec file, a folder of them, several joined by ';', or a .txt file with a path a line"
_MOST = 10**9
_MOST_EDGE = 1 << 16  # pixels, which is JPEG's
_READING = ("real", "test-io")


@dataclass(frozen=True, kw_only=True)
class Model:
    """The network and the shape of its input and output."""

    network: str = setting(f"one of {', '.join(NETWORKS)}", flag="--network", typed="resnet")
    num_layers: int | None = setting("depth, for resnet and vgg", flag="--num-layers", typed=None)
    image_shape: tuple[int, ...] = setting(
        "channels,height,width (default: the network's own)",
        most=_MOST_EDGE,
        flag="--image-shape",
        typed=None,
    )
    num_classes: int = setting(
        "classes that labels number from 0", 1000, least=1, most=10**7, flag="--num-classes"
    )


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Devices, processes, their environment and the kvstore."""

    kvstore: str = setting(
        "local, device, dist_sync, dist_async, ...",
        "local",
        role=Role.SCALED,
        flag="--kv-store",
        typed="device",
    )
    device: str = setting("what is trained on", "cpu", choices=DEVICE_KINDS)
    devices: int = setting(
        "devices of the whole job", 1, least=1, most=MOST_DEVICES, role=Role.SCALED
    )
    devices_per_worker: int = setting(
        "devices of each worker process", least=1, most=MOST_DEVICES, role=Role.SCALED
    )
    devices_per_host: int = setting(
        "devices of a full host in this sweep", least=1, most=MOST_DEVICES, role=Role.SCALED
    )
    servers_per_host: int = setting(
        "server processes of a host; 0: one beside each worker",
        0,
        least=0,
        most=MOST_DEVICES,
        role=Role.SERVERS,
    )
    server_hosts: int = setting(
        "hosts, after those of the workers, that run the servers alone",
        0,
        least=0,
        most=MOST_DEVICES,
        role=Role.SERVERS,
    )
    emulate: bool = setting("more workers than a host has GPUs may share them", False)
    env: tuple[str, ...] = setting(
        "NAME=VALUE of every process; NAME: its value here; secrets are not written", ()
    )


@dataclass(frozen=True, kw_only=True)
class Training:
    """The arithmetic of a step: batch, data type, optimizer, compression."""

    batch_per_device: int = setting(
        "images per step and device; 0 with global_batch_fixed", least=0
    )
    global_batch_fixed: int = setting(
        "images per step of the whole job (strong scaling); 0: batch_per_device", 0, least=0
    )
    dtype: str = setting("what is computed in", "float32", choices=DTYPES, flag="--dtype")
    lr: float = setting(
        "learning rate, for a batch of some hundreds", 0.01, least=0, flag="--lr", typed=0.1
    )
    momentum: float = setting("momentum, for optimisers that have it", 0.9, least=0, flag="--mom")
    weight_decay: float = setting("weight decay", 1e-4, least=0, flag="--wd")
    seed: int = setting(
        "of first weights, orders and random changes", 0, least=0, most=2**32 - 1, flag="--seed"
    )
    gc_type: str = setting(
        "compression of gradients",
        "none",
        role=Role.SERVERS,
        choices=COMPRESSIONS,
        flag="--gc-type",
        unless="gc_type",
    )
    gc_threshold: float = setting(
        "of 2bit: what a bit stands for",
        0.5,
        role=Role.SERVERS,
        flag="--gc-threshold",
        unless="gc_type",
    )


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Windows of steps, and the rules for stopping."""

    steps_per_window: int = setting(
        "0: 1 on CPU, 10 on GPU", least=1, most=_MOST, flag="--steps-per-window", typed=0
    )
    warmup_windows: int = setting(
        "windows before them that do not count",
        1,
        role=Role.MEASURING,
        least=0,
        most=_MOST,
        flag="--warmup-windows",
    )
    windows: int = setting(
        "measure so many windows at most (0: all epochs)",
        60,
        role=Role.MEASURING,
        least=0,
        most=_MOST,
        flag="--windows",
        typed=0,
    )
    precision: float = setting(
        "end once the rate is known to so much of it",
        0.02,
        role=Role.MEASURING,
        least=0,
        below=1,
        flag="--precision",
        typed=0.0,
    )
    budget_seconds: float = setting(
        "measure so long at most (0: any time)",
        300.0,
        role=Role.MEASURING,
        least=0,
        flag="--budget-seconds",
        typed=0.0,
    )


@dataclass(frozen=True, kw_only=True)
class Data:
    """Image files, how they are read, and the number of epochs."""

    num_epochs: int = setting(
        "the last epoch, those before --load-epoch too",
        80,
        least=1,
        most=_MOST,
        flag="--num-epochs",
        modes=("real",),
    )
    num_examples: int = setting(
        "images an epoch (0: count --data-train)",
        0,
        least=0,
        flag="--num-examples",
        modes=("real",),
    )
    stop_accuracy: float = setting(
        "end once validation is above this", 1.0, flag="--stop-accuracy", modes=("real",)
    )
    train: str = setting(
        DATA, "", stored="data_train", role=Role.ORIGIN, flag="--data-train", modes=_READING
    )
    val: str = setting(
        "the same for validation after each epoch",
        "",
        stored="data_val",
        role=Role.ORIGIN,
        flag="--data-val",
        modes=("real",),
        unless="data_val",
    )
    nthreads: int = setting(
        "decoding threads",
        4,
        stored="data_nthreads",
        least=1,
        most=MOST_DEVICES,
        flag="--data-nthreads",
        modes=_READING,
    )
    rgb_mean: tuple[float, ...] = setting(
        "taken from each pixel", (123.68, 116.779, 103.939), flag="--rgb-mean", modes=_READING
    )
    rgb_std: tuple[float, ...] = setting(
        "each pixel is divided by it then", (1.0, 1.0, 1.0), flag="--rgb-std", modes=_READING
    )


# The parts of a trial by attribute, in the order of records.
PARTS: dict[str, type] = {
    "model": Model,
    "layout": Layout,
    "training": Training,
    "measuring": Measurement,
    "data": Data,
    "mxnet": MxnetOptions,
    "fake": FakeOptions,
}
PART_FIELDS: dict[str, Field] = {
    field.name: field for name, part in PARTS.items() for field in fields_of(part, name)
}


def add_options(add: Callable[..., Any], *names: str) -> None:
    """Add the worker's options for these settings; `add` is an argparse add_argument."""
    for name in names:
        known, kind = PART_FIELDS[name].setting, PART_FIELDS[name].type
        default = PART_FIELDS[name].default if known.typed is ... else known.typed
        choices: tuple[Any, ...] = known.choices
        if kind is bool:
            kind, default, choices = int, int(default), (0, 1)
        elif isinstance(default, tuple):
            default = ",".join(f"{one:g}" for one in default)
        plain = int if kind == int | None else kind if kind in {int, float} else None
        add(known.flag, type=plain, default=default, choices=choices or None, help=known.help)


def add_other_options(made: argparse.ArgumentParser) -> None:
    """Add options for all settings that the parser does not have yet."""
    there = vars(made.parse_args([]))
    others = [name for name, one in PART_FIELDS.items() if one.option and one.option not in there]
    if others:
        add_options(made.add_argument_group("other settings").add_argument, *others)
