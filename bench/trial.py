"""Trial: everything that decides one number, and nothing that does not."""

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bench.errors import SpecError
from bench.faults import Fault, fault
from bench.kvstores import checked_kvstore, is_async, is_distributed
from bench.networks import NETWORKS, describe
from bench.networks.catalogue import checked_layers
from bench.values import checked

MODES = ("synthetic", "real", "test-io")
DEVICE_KINDS = ("cpu", "gpu")
DTYPES = ("float32", "float16")
MOST_DEVICES = 10_000


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One point of a sweep, with every default filled in; `trial.make` checks and fills.

    devices             in the whole job; each of `workers` processes has `devices_per_worker`
    devices_per_host    how many a full host has in this sweep
    batch_per_device    images a step on one device; worker and global batch follow from it
    windows             measured windows of `steps_per_window` steps, after `warmup_windows`
                        (0: as many as `num_epochs` hold)
    stop_accuracy       training ends once validation accuracy is above it
    fake_seconds        the fake engine's windows, in order, the last one repeated
    fake_faults         the fake engine's faults: "worker-1:exit" and the like
    """

    engine: str = "mxnet"
    mode: str = "synthetic"
    network: str
    num_layers: int | None
    image_shape: tuple[int, ...]
    num_classes: int = 1000
    kvstore: str = "local"
    device: str = "cpu"
    devices: int = 1
    devices_per_worker: int
    devices_per_host: int
    batch_per_device: int
    dtype: str = "float32"
    lr: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 1e-4
    seed: int = 0
    steps_per_window: int
    warmup_windows: int = 1
    windows: int = 10
    num_epochs: int = 80
    num_examples: int = 0
    stop_accuracy: float = 1.0
    data_train: str = ""
    data_val: str = ""
    data_nthreads: int = 4
    rgb_mean: tuple[float, ...] = (123.68, 116.779, 103.939)
    rgb_std: tuple[float, ...] = (1.0, 1.0, 1.0)
    fake_seconds: tuple[float, ...] = ()
    fake_faults: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The network's name in tables: 'resnet-152'; what is measured where there is none."""
        return "input" if self.mode == "test-io" else describe(self.network, self.num_layers)

    @property
    def name(self) -> str:
        """The point in a few words, for people: 'resnet-152 dist_sync x2'."""
        what = "test-io" if self.mode == "test-io" else f"{self.label} {self.kvstore}"
        real = " real" if self.mode == "real" else ""
        return f"{what}{real} x{self.devices}"

    @property
    def workers(self) -> int:
        """Worker processes of the job."""
        return self.devices // self.devices_per_worker

    @property
    def hosts(self) -> int:
        """Hosts the job takes, filled one after another."""
        return -(-self.devices // self.devices_per_host)

    @property
    def servers(self) -> int:
        """Server processes: one beside each worker where the store is distributed."""
        return self.workers if is_distributed(self.kvstore) else 0

    @property
    def worker_batch(self) -> int:
        """Images a step of one worker: what upstream calls --batch-size."""
        return self.batch_per_device * self.devices_per_worker

    @property
    def global_batch(self) -> int:
        """Images a step of the whole job."""
        return self.batch_per_device * self.devices

    @property
    def asynchronous(self) -> bool:
        """Whether the ranks run on their own clocks."""
        return is_async(self.kvstore)

    @property
    def scripted_windows(self) -> int:
        """Windows, warm-up included, that each worker of the fake engine says."""
        return self.warmup_windows + (self.windows or 10)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults that the fake engine plays; SpecError where one cannot be."""
        roles = {
            "worker": self.workers,
            "server": self.servers,
            "scheduler": min(self.servers, 1),
        }
        return tuple(
            fault(text, roles=roles, windows=self.scripted_windows) for text in self.fake_faults
        )

    @cached_property
    def key(self) -> str:
        """Twelve hex digits that change with any field."""
        text = json.dumps(dataclasses.asdict(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


FIELDS = {field.name: field for field in dataclasses.fields(Trial)}


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise SpecError(f"{name}: expected one of {', '.join(known)}, got {value!r}")


def make(fields: dict[str, Any]) -> Trial:
    """A Trial of these fields, the rest filled in; raises SpecError for what cannot be."""
    given = {name: checked(name, FIELDS[name].type, value) for name, value in fields.items()}
    given.setdefault("network", "tiny")
    given["num_layers"] = checked_layers(given["network"], given.get("num_layers"))
    given.setdefault("image_shape", NETWORKS[given["network"]].image_shape)
    given.setdefault("devices", 1)
    distributed = is_distributed(checked_kvstore(given.setdefault("kvstore", "local")))
    gpu = given.setdefault("device", "cpu") == "gpu"
    given.setdefault("devices_per_host", given["devices"])
    # A worker a host with all its devices is how GPUs are used; a CPU device is one pinned core.
    most = min(given["devices"], given["devices_per_host"])
    given.setdefault("devices_per_worker", 1 if distributed and not gpu else most)
    given.setdefault("steps_per_window", 10 if gpu else 1)
    if "batch_per_device" not in given:
        raise SpecError("batch_per_device: expected a number of images, it is missing")
    trial = Trial(**given)
    _check_values(trial)
    return trial


def _check_values(trial: Trial) -> None:
    _one_of("mode", trial.mode, MODES)
    _one_of("device", trial.device, DEVICE_KINDS)
    _one_of("dtype", trial.dtype, DTYPES)
    at_least_one = (
        "devices devices_per_worker devices_per_host batch_per_device steps_per_window "
        "num_classes num_epochs data_nthreads"
    )
    for name in at_least_one.split():
        if getattr(trial, name) < 1:
            raise SpecError(f"{name}: expected 1 or more, got {getattr(trial, name)}")
    for name in ("warmup_windows", "windows", "num_examples", "lr", "momentum", "weight_decay"):
        if getattr(trial, name) < 0:
            raise SpecError(f"{name}: expected 0 or more, got {getattr(trial, name)}")
    if trial.devices > MOST_DEVICES:
        raise SpecError(f"devices: expected {MOST_DEVICES} or fewer, got {trial.devices}")
    if trial.dtype == "float16" and trial.device == "cpu":
        raise SpecError("dtype: MXNet 1.9.1 has no float16 on CPU; use float32 or device = 'gpu'")
    _check_images(trial)
    _check_layout(trial)
    _check_data(trial)
    if (trial.faults or trial.fake_seconds) and trial.engine != "fake":
        raise SpecError("fake_seconds and fake_faults need engine = 'fake' (--engine fake)")
    if any(seconds <= 0 for seconds in trial.fake_seconds):
        raise SpecError(f"fake_seconds: expected seconds above 0, got {list(trial.fake_seconds)}")


def _check_images(trial: Trial) -> None:
    if min(trial.rgb_std, default=0) <= 0:
        raise SpecError(f"rgb_std: expected numbers above 0, got {list(trial.rgb_std)}")
    if len(trial.image_shape) != 3 or min(trial.image_shape) < 1:
        raise SpecError(f"image_shape: expected channels, height, width, got {trial.image_shape}")
    for name in ("rgb_mean", "rgb_std"):
        if len(getattr(trial, name)) != 3:
            raise SpecError(f"{name}: expected 3 numbers, got {len(getattr(trial, name))}")


def _check_layout(trial: Trial) -> None:
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
    if trial.devices_per_host % trial.devices_per_worker:
        raise SpecError(
            f"devices_per_worker: {trial.devices_per_worker} does not divide a host's "
            f"{trial.devices_per_host} devices"
        )
    if trial.workers > 1 and not is_distributed(trial.kvstore):
        raise SpecError(
            f"devices: {trial.devices} need {trial.workers} workers, and kvstore "
            f"{trial.kvstore!r} has one; use a dist_ store or at most {trial.devices_per_worker}"
        )


def _check_data(trial: Trial) -> None:
    if trial.mode == "synthetic" and (trial.data_train or trial.data_val):
        raise SpecError("data_train, data_val: synthetic mode reads no data; use mode = 'real'")
    if trial.mode != "synthetic" and not trial.data_train:
        raise SpecError(f"data_train: mode {trial.mode!r} expects .rec files, it is missing")
    if trial.mode == "synthetic" and trial.windows == 0:
        raise SpecError("windows: synthetic data has no epochs to end by; expected 1 or more")
    if trial.mode == "test-io" and is_distributed(trial.kvstore):
        raise SpecError(f"kvstore: test-io reads in one process, got {trial.kvstore!r}")
    if trial.mode == "test-io" and trial.devices != 1:
        raise SpecError(
            f"devices: test-io is measured on one host's processors, got {trial.devices}"
        )


def chosen(trials: Sequence[Trial], words: str) -> list[Trial]:
    """The trials in whose name all the words stand: 'resnet-152 x256'; SpecError where none is."""
    found = [trial for trial in trials if set(words.split()) <= set(trial.name.split())]
    if not found:
        names = ", ".join(trial.name for trial in trials)
        raise SpecError(f"no point's name has the words {words!r}; the points: {names}")
    return found
