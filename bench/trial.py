"""Trial: everything that decides one number, and nothing that does not."""

import dataclasses
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args, get_origin

from bench import secrets
from bench.engines.faults import Fault, fault
from bench.errors import SpecError, checked, quoted, unknown
from bench.kvstores import (
    check_bandwidth,
    check_compression,
    checked_kvstore,
    is_async,
    is_distributed,
)
from bench.networks import NETWORKS, describe, named
from bench.networks.catalog import check_images, checked_layers
from bench.secrets import Hidden, masked_word
from bench.training.options import COSTS, DTYPES, parse


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One point of a sweep, with every default filled in; `trial.make` checks and fills.

    devices             in the whole job; each of `workers` processes has `devices_per_worker`
    devices_per_host    how many a full host has in this sweep
    servers_per_host    server processes of a host; 0: one beside each worker
    server_hosts        hosts, after those of the workers, that run the servers alone
    emulate             more workers than a host has GPUs may share them
    env                 "NAME=VALUE" of every process of the job; "NAME": its value here. Secret and
                        passed values stand beside the text (bench.secrets)
    batch_per_device    images a step on one device; worker and global batch follow from it
    global_batch_fixed  images a step of the whole job, whatever its devices (strong scaling), and
                        batch_per_device is 0 then; 0: batch_per_device decides
    python              interpreter of every process, with its MXNet, in place of a host's own;
                        relative to the checkout ("": the host's)
    options             further options of a worker, "--optimizer=nag" and the like
    windows             measured windows of `steps_per_window` steps, after `warmup_windows`, at
                        most (0: as many as `num_epochs` hold)
    precision           measuring ends once half of the rate's 95 % interval is within this part
                        of it (0: after `windows`)
    budget_seconds      measuring ends after this time (0: after `windows`)
    costs               "upstream": each step copies its input, computes the accuracy and uses the
                        store of one device, as the speed that upstream prints contains them
    cold                test-io reads from the disk: its files are dropped from memory first
    stop_accuracy       training ends once validation accuracy is above it
    gc_type             "2bit": gradients pushed to servers are each 0 or as large as gc_threshold
    fake_seconds        the fake engine's windows, in order, the last one repeated
    fake_faults         the fake engine's faults: "worker-1:exit" and the like
    fake_noise          relative standard deviation of its windows within a process, of which
                        each keeps the share fake_correlation of the one before
    fake_spread         the same between processes
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
    servers_per_host: int = 0
    server_hosts: int = 0
    emulate: bool = False
    env: tuple[str, ...] = ()
    batch_per_device: int
    global_batch_fixed: int = 0
    dtype: str = "float32"
    lr: float = 0.01
    momentum: float = 0.9
    weight_decay: float = 1e-4
    seed: int = 0
    gc_type: str = "none"
    gc_threshold: float = 0.5
    steps_per_window: int
    warmup_windows: int = 1
    windows: int = 60
    precision: float = 0.02
    budget_seconds: float = 300.0
    num_epochs: int = 80
    num_examples: int = 0
    stop_accuracy: float = 1.0
    data_train: str = ""
    data_val: str = ""
    data_nthreads: int = 4
    rgb_mean: tuple[float, ...] = (123.68, 116.779, 103.939)
    rgb_std: tuple[float, ...] = (1.0, 1.0, 1.0)
    python: str = ""
    options: tuple[str, ...] = ()
    cold: bool = False
    costs: str = "none"
    fake_seconds: tuple[float, ...] = ()
    fake_faults: tuple[str, ...] = ()
    fake_noise: float = 0.0
    fake_correlation: float = 0.0
    fake_spread: float = 0.0

    @property
    def label(self) -> str:
        """The network's name in tables: 'resnet-152'; what reads where nothing is trained."""
        if self.mode != "test-io":
            return self.network_name
        threads = f"{self.data_nthreads} thread{'s' if self.data_nthreads > 1 else ''}"
        return f"{self.network_name}, {threads}{', cold' if self.cold else ''}"

    @property
    def network_name(self) -> str:
        """The network with its layers: 'resnet-152'; 'input' if nothing is trained."""
        return "input" if self.mode == "test-io" else describe(self.network, self.num_layers)

    @property
    def store_name(self) -> str:
        """The kvstore in tables; 'test-io' if no gradients go anywhere."""
        return "test-io" if self.mode == "test-io" else self.kvstore

    @property
    def name(self) -> str:
        """The point in a few words, for people: 'resnet-152 dist_sync x2'."""
        if self.mode == "test-io":
            return f"test-io{self.label.removeprefix('input').replace(',', '')} x{self.devices}"
        what = f"{self.label} {self.kvstore}"
        real = f" {self.mode}" if self.mode in {"real", "bandwidth"} else ""
        how = "" if self.dtype == "float32" else f" {self.dtype}"
        how += "" if self.gc_type == "none" else f" {self.gc_type}"
        how += "" if self.costs == "none" else f" {self.costs}-costs"
        return f"{what}{how}{real} x{self.devices}"

    @property
    def workers(self) -> int:
        """Worker processes of the job."""
        return self.devices // self.devices_per_worker

    @property
    def hosts(self) -> int:
        """Hosts the job takes, filled one after another, then those of servers alone."""
        return self.worker_hosts + (self.server_hosts if is_distributed(self.kvstore) else 0)

    @property
    def worker_hosts(self) -> int:
        """Hosts with workers."""
        return -(-self.devices // self.devices_per_host)

    @property
    def servers(self) -> int:
        """Server processes where the store is distributed."""
        if not is_distributed(self.kvstore):
            return 0
        hosts = self.server_hosts or self.worker_hosts
        return hosts * self.servers_per_host or self.server_hosts or self.workers

    @property
    def worker_batch(self) -> int:
        """Images a step of one worker, of the one with most: what upstream calls --batch-size."""
        return self.worker_batches[0]

    @property
    def worker_batches(self) -> tuple[int, ...]:
        """Images a step of each rank; where a fixed batch does not divide, the first have more."""
        if not self.global_batch_fixed:
            return (self.batch_per_device * self.devices_per_worker,) * self.workers
        each, more = divmod(self.global_batch_fixed, self.workers)
        return tuple(each + (rank < more) for rank in range(self.workers))

    @property
    def device_batch(self) -> int:
        """Images a step of one device, of the one with most."""
        return -(-self.worker_batch // self.devices_per_worker)

    @property
    def global_batch(self) -> int:
        """Images a step of the whole job."""
        return sum(self.worker_batches)

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
        fields = dataclasses.asdict(self)
        for name in ("python", "costs"):  # of later: what was measured without it keeps its key
            if fields[name] == FIELDS[name].default:
                del fields[name]
        fields["env"] = secrets.identified(self.env)
        text = json.dumps(fields, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def masked(self) -> "Trial":
        """The trial as it may be shown, with the key of what was measured."""
        env = tuple(map(secrets.masked_word, self.env))
        if env == self.env:
            return self
        made = dataclasses.replace(self, env=env)
        made.__dict__["key"] = self.key
        return made


FIELDS = {field.name: field for field in dataclasses.fields(Trial)}


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
    if given.get("global_batch_fixed"):
        given.setdefault("batch_per_device", 0)
    if "batch_per_device" not in given:
        raise SpecError("batch_per_device: expected a number of images, it is missing")
    given["env"] = tuple(map(secrets.setting, given.get("env", ())))
    trial = Trial(**given)
    check(trial)
    return trial


def is_called(trial: Trial, words: str) -> bool:
    """Whether all the words stand in the trial's name."""
    return set(words.split()) <= set(trial.name.split())


def chosen(trials: Sequence[Trial], words: str) -> list[Trial]:
    """The trials in whose name all the words stand: 'resnet-152 x256'; SpecError where none is."""
    found = [trial for trial in trials if is_called(trial, words)]
    if not found:
        names = ", ".join(trial.name for trial in trials)
        raise SpecError(f"no point's name has the words {quoted(words)}; the points: {names}")
    return found


if TYPE_CHECKING:
    pass

MODES = ("synthetic", "real", "test-io", "bandwidth")
DEVICE_KINDS = ("cpu", "gpu")
MOST_DEVICES = 10_000
_MOST_EDGE = 1 << 16  # pixels, which is JPEG's
# What an engine says of a trial's fields; anything else may stand in `options`.
OF_FIELDS = frozenset(
    f"--{name}"
    for name in (
        *("network", "num-layers", "image-shape", "num-classes", "batch-size", "global-batch"),
        "auto-batch",
        *("gpus", "cpus", "kv-store", "expect-workers", "dtype", "lr", "mom", "wd", "seed"),
        *("windows", "warmup-windows", "steps-per-window", "benchmark", "test-io"),
        *("data-train", "data-val", "data-nthreads", "rgb-mean", "rgb-std", "num-examples"),
        *("cold", "bandwidth", "costs"),
        *("num-epochs", "stop-accuracy", "precision", "budget-seconds", "gc-type", "gc-threshold"),
    )
)


def _one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise SpecError(f"{name}: expected one of {', '.join(known)}, got {quoted(value)}")


def check(trial: "Trial") -> None:
    """Raises SpecError naming the field that cannot be, what was expected and what it is."""
    _one_of("mode", trial.mode, MODES)
    _one_of("device", trial.device, DEVICE_KINDS)
    _one_of("dtype", trial.dtype, DTYPES)
    _one_of("costs", trial.costs, COSTS)
    if trial.costs != "none" and trial.mode != "synthetic":
        raise SpecError(f"costs: expected mode 'synthetic', got {quoted(trial.mode)}")
    at_least_one = (
        "devices devices_per_worker devices_per_host steps_per_window num_classes num_epochs "
        "data_nthreads"
    )
    for name in at_least_one.split():
        if getattr(trial, name) < 1:
            raise SpecError(f"{name}: expected 1 or more, got {getattr(trial, name)}")
    for name in (
        "servers_per_host",
        "server_hosts",
        "batch_per_device",
        "global_batch_fixed",
        "warmup_windows",
        "windows",
        "num_examples",
        "seed",
        "precision",
        "budget_seconds",
        "lr",
        "momentum",
        "weight_decay",
    ):
        if getattr(trial, name) < 0:
            raise SpecError(f"{name}: expected 0 or more, got {getattr(trial, name)}")
    _check_most(trial)
    _check_arithmetic(trial)
    if trial.precision >= 1:
        raise SpecError(f"precision: expected a part of the rate, below 1, got {trial.precision}")
    if "\0" in trial.python:
        raise SpecError(f"python: expected a path, got {quoted(trial.python)}")
    for setting in trial.env:
        _check_setting(setting)
    names = [setting.partition("=")[0] for setting in trial.env]
    if len(set(names)) < len(names):
        raise SpecError(f"env: expected each name once, got {', '.join(names)}")
    if "DMLC_LOCAL" in names and trial.hosts > 1:
        raise SpecError(f"env: DMLC_LOCAL joins processes of one host, and there are {trial.hosts}")
    _check_images(trial)
    _check_layout(trial)
    _check_batch(trial)
    _check_options(trial)
    _check_data(trial)
    _check_played(trial)


def _check_most(trial: "Trial") -> None:
    """Raises SpecError for a number that would make more than any job has."""
    most = {
        "devices": MOST_DEVICES,
        "devices_per_host": MOST_DEVICES,
        "devices_per_worker": MOST_DEVICES,
        "server_hosts": MOST_DEVICES,
        "servers_per_host": MOST_DEVICES,
        "servers": MOST_DEVICES,
        "data_nthreads": MOST_DEVICES,
        "num_classes": 10**7,
        "windows": 10**9,
        "warmup_windows": 10**9,
        "steps_per_window": 10**9,
        "num_epochs": 10**9,
        "seed": 2**32 - 1,
    }
    for name, largest in most.items():
        if getattr(trial, name) > largest:
            raise SpecError(f"{name}: expected {largest} or fewer, got {getattr(trial, name)}")
    if max(trial.image_shape, default=0) > _MOST_EDGE:
        raise SpecError(f"image_shape: expected {_MOST_EDGE} or less, got {trial.image_shape}")


def _check_played(trial: "Trial") -> None:
    played = trial.faults or trial.fake_seconds or trial.fake_noise or trial.fake_spread
    if played and trial.engine != "fake":
        raise SpecError(
            "fake_seconds, fake_faults, fake_noise and fake_spread need engine = 'fake' "
            "(--engine fake)"
        )
    if any(seconds <= 0 for seconds in trial.fake_seconds):
        raise SpecError(f"fake_seconds: expected seconds above 0, got {list(trial.fake_seconds)}")
    for name in ("fake_noise", "fake_correlation", "fake_spread"):
        if not 0 <= getattr(trial, name) < 1:
            raise SpecError(f"{name}: expected 0 or more, below 1, got {getattr(trial, name)}")


def _check_arithmetic(trial: "Trial") -> None:
    if trial.dtype == "float16" and trial.device == "cpu":
        raise SpecError("dtype: MXNet 1.9.1 has no float16 on CPU; use bfloat16 or device = 'gpu'")
    if trial.dtype == "bfloat16" and trial.device == "gpu":
        raise SpecError("dtype: MXNet 1.9.1 has bfloat16 on CPU only; use float16 on GPUs")
    if trial.kvstore == "nccl" and trial.device == "cpu":
        raise SpecError("kvstore: nccl adds up on GPUs; use device, or device = 'gpu'")
    check_compression(trial.gc_type, trial.gc_threshold, trial.kvstore, trial.dtype)


def _check_setting(text: str) -> None:
    name, equals, _ = text.partition("=")
    value = text.value or "" if isinstance(text, Hidden) else text
    if not (name.isascii() and name.isidentifier()) or "\0" in value:
        shown = repr(str(text)) if equals else "a word that is neither"
        raise SpecError(f"env: expected NAME=VALUE or NAME, got {shown}")
    if name.startswith("DMLC_") and name != "DMLC_LOCAL":
        raise SpecError(f"env: {name} is set by what starts the job; leave it out")


def _check_images(trial: "Trial") -> None:
    if min(trial.rgb_std, default=0) <= 0:
        raise SpecError(f"rgb_std: expected numbers above 0, got {list(trial.rgb_std)}")
    if len(trial.image_shape) != 3 or min(trial.image_shape) < 1:
        raise SpecError(f"image_shape: expected channels, height, width, got {trial.image_shape}")
    for name in ("rgb_mean", "rgb_std"):
        if len(getattr(trial, name)) != 3:
            raise SpecError(f"{name}: expected 3 numbers, got {len(getattr(trial, name))}")
    if trial.mode != "test-io":
        check_images(trial.network, trial.num_layers, trial.image_shape)


def _check_layout(trial: "Trial") -> None:
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
    if trial.worker_hosts > 1 and trial.devices_per_host % trial.devices_per_worker:
        raise SpecError(
            f"devices_per_worker: {trial.devices_per_worker} does not divide a host's "
            f"{trial.devices_per_host} devices"
        )
    if trial.workers > 1 and not is_distributed(trial.kvstore):
        raise SpecError(
            f"devices: {trial.devices} need {trial.workers} workers, and kvstore "
            f"{quoted(trial.kvstore)} has one; use a dist_ store or at most "
            f"{trial.devices_per_worker}"
        )


def _check_batch(trial: "Trial") -> None:
    fixed = trial.global_batch_fixed
    if not fixed and trial.batch_per_device < 1:
        raise SpecError(f"batch_per_device: expected 1 or more, got {trial.batch_per_device}")
    if fixed and trial.batch_per_device:
        raise SpecError(
            f"global_batch_fixed: {fixed} and batch_per_device {trial.batch_per_device} cannot "
            f"both be; give one of them (--auto-batch finds the latter)"
        )
    if fixed and fixed // trial.workers < trial.devices_per_worker:
        raise SpecError(
            f"global_batch_fixed: expected an image or more for each of {trial.devices} devices, "
            f"got {fixed}"
        )


def _check_options(trial: "Trial") -> None:
    """Options of workers are checked here as a worker checks them, and are no field's."""
    if not trial.options:
        return
    for option in trial.options:
        name, equals, _ = option.partition("=")
        if not name.startswith("--") or not equals:
            raise SpecError(f"options: expected --NAME=VALUE, got {quoted(option)}")
        if name in OF_FIELDS:
            raise SpecError(f"options: {name} follows from the trial's own fields; set those")
    try:
        parse(["--benchmark=1", "--windows=1", f"--kv-store={trial.kvstore}", *trial.options])
    except SpecError as error:
        raise SpecError(f"options: {error}") from error


def _check_data(trial: "Trial") -> None:
    reads = trial.mode in {"real", "test-io"}
    if not reads and (trial.data_train or trial.data_val):
        raise SpecError(f"data_train, data_val: {trial.mode} mode reads no data; use mode = 'real'")
    if reads and not trial.data_train:
        raise SpecError(f"data_train: mode {quoted(trial.mode)} expects .rec files, it is missing")
    if not reads and trial.windows == 0:
        raise SpecError("windows: synthetic data has no epochs to end by; expected 1 or more")
    if trial.mode == "bandwidth" and not (
        is_distributed(trial.kvstore) and trial.devices_per_worker == 1
    ):
        raise SpecError(
            f"mode: bandwidth is of a store with servers (dist_...) and workers of one device, got "
            f"{quoted(trial.kvstore)} and {trial.devices_per_worker}"
        )
    if trial.mode == "bandwidth":
        check_bandwidth(trial.kvstore)
    if trial.cold and trial.mode != "test-io":
        raise SpecError(f"cold: expected mode 'test-io', got {quoted(trial.mode)}")
    if trial.mode == "test-io" and is_distributed(trial.kvstore):
        raise SpecError(f"kvstore: test-io reads in one process, got {quoted(trial.kvstore)}")
    if trial.mode == "test-io" and trial.devices != 1:
        raise SpecError(
            f"devices: test-io is measured on one host's processors, got {trial.devices}"
        )


# A comma or a space ends a setting where another begins, so that image_shape=3,64,64 is one.
_BETWEEN = re.compile(r"[,\s]+(?=[A-Za-z_][\w.]*=)")
_DERIVED = ("image_shape", "devices_per_worker", "devices_per_host", "steps_per_window")


def changed(trial: Trial, text: str) -> Trial:
    """The trial with FIELD=VALUE and env.NAME=VALUE of this text; what follows from them follows.

    Raises SpecError naming the setting that cannot be.
    """
    fields = _given(trial)
    for setting in filter(None, _BETWEEN.split(text.strip())):
        name, equals, value = setting.partition("=")
        if not equals:
            raise SpecError(f"expected FIELD=VALUE or env.NAME=VALUE, got {quoted(setting)}")
        if name.startswith("env."):
            fields["env"] = _with_variable(fields["env"], name.removeprefix("env."), value)
        elif name == "network":
            fields["network"], fields["num_layers"] = named(value)
        elif name in FIELDS and name != "env":
            fields[name] = _value(FIELDS[name].type, value)
        else:
            raise unknown("setting", name, [*(one for one in FIELDS if one != "env"), "env.NAME"])
    try:
        return make(fields)
    except SpecError as error:
        raise SpecError(f"{quoted(shown(text))}: {error}") from error


def shown(text: str) -> str:
    """The settings as they were typed, secrets masked."""
    return " ".join(map(masked_word, _BETWEEN.split(text.strip())))


def _given(trial: Trial) -> dict[str, Any]:
    """Its fields without those that follow from the others: another store has other workers."""
    fields = dataclasses.asdict(trial)
    for name in _DERIVED:
        fewer = {other: value for other, value in fields.items() if other != name}
        if make(fewer) == trial:
            fields = fewer
    return fields


def _with_variable(env: tuple[str, ...], name: str, value: str) -> tuple[str, ...]:
    others = (one for one in env if one.partition("=")[0] != name)
    return (*others, f"{name}={value}")


def _value(kind: Any, text: str) -> Any:
    """The text as a file's value of the field's type would be; `make` refuses what does not fit."""
    if get_origin(kind) is tuple:
        return [_value(get_args(kind)[0], part.strip()) for part in text.split(",") if part]
    if kind is str:
        return text
    if kind is bool:
        return {"true": True, "false": False}.get(text, text)
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
