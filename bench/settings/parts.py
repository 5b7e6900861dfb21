"""Parts of a trial that do not depend on its engine."""

from dataclasses import dataclass

from bench.settings.declaration import setting


@dataclass(frozen=True, kw_only=True)
class Model:
    """The network and the shape of its input and output."""

    network: str = setting()
    num_layers: int | None = setting()
    image_shape: tuple[int, ...] = setting()
    num_classes: int = setting(1000)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Devices, processes and their environment, and the store that joins them.

    devices             in the whole job; each of `workers` processes has `devices_per_worker`
    devices_per_host    how many a full host has in this sweep
    servers_per_host    server processes of a host; 0: one beside each worker
    server_hosts        hosts, after those of the workers, that run the servers alone
    emulate             more workers than a host has GPUs may share them
    env                 "NAME=VALUE" of every process of the job; "NAME": its value here. Secret and
                        passed values stand beside the text (bench.secrets)
    """

    kvstore: str = setting("local")
    device: str = setting("cpu")
    devices: int = setting(1)
    devices_per_worker: int = setting()
    devices_per_host: int = setting()
    servers_per_host: int = setting(0)
    server_hosts: int = setting(0)
    emulate: bool = setting(False)
    env: tuple[str, ...] = setting(())


@dataclass(frozen=True, kw_only=True)
class Training:
    """The arithmetic of a step: batch, data type, optimizer, compression.

    batch_per_device    images a step on one device; worker and global batch follow from it
    global_batch_fixed  images a step of the whole job, whatever its devices (strong scaling), and
                        batch_per_device is 0 then; 0: batch_per_device decides
    gc_type             "2bit": gradients pushed to servers are each 0 or as large as gc_threshold
    """

    batch_per_device: int = setting()
    global_batch_fixed: int = setting(0)
    dtype: str = setting("float32")
    lr: float = setting(0.01)
    momentum: float = setting(0.9)
    weight_decay: float = setting(1e-4)
    seed: int = setting(0)
    gc_type: str = setting("none")
    gc_threshold: float = setting(0.5)


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """Windows of steps, and when there are enough of them.

    windows         measured windows of `steps_per_window` steps, after `warmup_windows`, at most
                    (0: as many as `num_epochs` hold)
    precision       measuring ends once half of the rate's 95 % interval is within this part of it
                    (0: after `windows`)
    budget_seconds  measuring ends after this time (0: after `windows`)
    """

    steps_per_window: int = setting()
    warmup_windows: int = setting(1)
    windows: int = setting(60)
    precision: float = setting(0.02)
    budget_seconds: float = setting(300.0)


@dataclass(frozen=True, kw_only=True)
class Data:
    """Files of images, how they are read, and how many epochs of them.

    stop_accuracy  training ends once validation accuracy is above it
    """

    num_epochs: int = setting(80)
    num_examples: int = setting(0)
    stop_accuracy: float = setting(1.0)
    train: str = setting("", stored="data_train")
    val: str = setting("", stored="data_val")
    nthreads: int = setting(4, stored="data_nthreads")
    rgb_mean: tuple[float, ...] = setting((123.68, 116.779, 103.939))
    rgb_std: tuple[float, ...] = setting((1.0, 1.0, 1.0))
