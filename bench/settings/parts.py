"""Parts of a trial that do not depend on its engine."""

from dataclasses import dataclass

from bench.kvstores import COMPRESSIONS
from bench.networks import NETWORKS
from bench.settings.declaration import Role, setting

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

    network: str = setting(help=f"one of {', '.join(NETWORKS)}", flag="--network", typed="resnet")
    num_layers: int | None = setting(
        help="depth, for resnet and vgg", flag="--num-layers", typed=None
    )
    image_shape: tuple[int, ...] = setting(
        help="channels,height,width (default: the network's own)",
        most=_MOST_EDGE,
        flag="--image-shape",
        typed=None,
    )
    num_classes: int = setting(
        1000,
        help="classes that labels number from 0",
        least=1,
        most=10**7,
        flag="--num-classes",
    )


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Devices, processes and their environment, and the store that joins them."""

    kvstore: str = setting(
        "local",
        help="local, device, dist_sync, dist_async, ...",
        role=Role.SCALED,
        flag="--kv-store",
        typed="device",
    )
    device: str = setting("cpu", help="what is trained on", choices=DEVICE_KINDS)
    devices: int = setting(
        1, help="devices of the whole job", least=1, most=MOST_DEVICES, role=Role.SCALED
    )
    devices_per_worker: int = setting(
        help="devices of each worker process", least=1, most=MOST_DEVICES, role=Role.SCALED
    )
    devices_per_host: int = setting(
        help="devices of a full host in this sweep", least=1, most=MOST_DEVICES, role=Role.SCALED
    )
    servers_per_host: int = setting(
        0,
        help="server processes of a host; 0: one beside each worker",
        least=0,
        most=MOST_DEVICES,
        role=Role.SERVERS,
    )
    server_hosts: int = setting(
        0,
        help="hosts, after those of the workers, that run the servers alone",
        least=0,
        most=MOST_DEVICES,
        role=Role.SERVERS,
    )
    emulate: bool = setting(False, help="more workers than a host has GPUs may share them")
    env: tuple[str, ...] = setting(
        (),
        help="NAME=VALUE of every process; NAME: its value here; secrets are not written",
    )


@dataclass(frozen=True, kw_only=True)
class Training:
    """The arithmetic of a step: batch, data type, optimizer, compression."""

    batch_per_device: int = setting(
        help="images per step and device; 0 with global_batch_fixed", least=0
    )
    global_batch_fixed: int = setting(
        0, help="images per step of the whole job (strong scaling); 0: batch_per_device", least=0
    )
    dtype: str = setting("float32", help="what is computed in", choices=DTYPES, flag="--dtype")
    lr: float = setting(
        0.01,
        help="learning rate, for a batch of some hundreds",
        least=0,
        flag="--lr",
        typed=0.1,
    )
    momentum: float = setting(
        0.9, help="momentum, for optimisers that have it", least=0, flag="--mom"
    )
    weight_decay: float = setting(1e-4, help="weight decay", least=0, flag="--wd")
    seed: int = setting(
        0,
        help="of first weights, orders and random changes",
        least=0,
        most=2**32 - 1,
        flag="--seed",
    )
    gc_type: str = setting(
        "none",
        help="compression of gradients",
        role=Role.SERVERS,
        choices=COMPRESSIONS,
        flag="--gc-type",
        unless="gc_type",
    )
    gc_threshold: float = setting(
        0.5,
        help="of 2bit: what a bit stands for",
        role=Role.SERVERS,
        flag="--gc-threshold",
        unless="gc_type",
    )


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """Windows of steps, and when there are enough of them."""

    steps_per_window: int = setting(
        help="0: 1 on CPU, 10 on GPU", least=1, most=_MOST, flag="--steps-per-window", typed=0
    )
    warmup_windows: int = setting(
        1,
        help="windows before them that do not count",
        role=Role.MEASURING,
        least=0,
        most=_MOST,
        flag="--warmup-windows",
    )
    windows: int = setting(
        60,
        help="measure so many windows at most (0: all epochs)",
        role=Role.MEASURING,
        least=0,
        most=_MOST,
        flag="--windows",
        typed=0,
    )
    precision: float = setting(
        0.02,
        help="end once the rate is known to so much of it",
        role=Role.MEASURING,
        least=0,
        below=1,
        flag="--precision",
        typed=0.0,
    )
    budget_seconds: float = setting(
        300.0,
        help="measure so long at most (0: any time)",
        role=Role.MEASURING,
        least=0,
        flag="--budget-seconds",
        typed=0.0,
    )


@dataclass(frozen=True, kw_only=True)
class Data:
    """Files of images, how they are read, and how many epochs of them."""

    num_epochs: int = setting(
        80,
        help="the last epoch, those before --load-epoch too",
        least=1,
        most=_MOST,
        flag="--num-epochs",
        modes=("real",),
    )
    num_examples: int = setting(
        0,
        help="images an epoch (0: count --data-train)",
        least=0,
        flag="--num-examples",
        modes=("real",),
    )
    stop_accuracy: float = setting(
        1.0, help="end once validation is above this", flag="--stop-accuracy", modes=("real",)
    )
    train: str = setting(
        "",
        stored="data_train",
        help=DATA,
        role=Role.ORIGIN,
        flag="--data-train",
        modes=_READING,
    )
    val: str = setting(
        "",
        stored="data_val",
        help="the same for validation after each epoch",
        role=Role.ORIGIN,
        flag="--data-val",
        modes=("real",),
        unless="data_val",
    )
    nthreads: int = setting(
        4,
        stored="data_nthreads",
        help="decoding threads",
        least=1,
        most=MOST_DEVICES,
        flag="--data-nthreads",
        modes=_READING,
    )
    rgb_mean: tuple[float, ...] = setting(
        (123.68, 116.779, 103.939),
        help="taken from each pixel",
        flag="--rgb-mean",
        modes=_READING,
    )
    rgb_std: tuple[float, ...] = setting(
        (1.0, 1.0, 1.0),
        help="each pixel is divided by it then",
        flag="--rgb-std",
        modes=_READING,
    )
