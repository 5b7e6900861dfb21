"""Trial: everything that decides one number, and nothing that does not."""

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bench import secrets
from bench.errors import SpecError, quoted
from bench.faults import Fault, fault
from bench.kvstores import checked_kvstore, is_async, is_distributed
from bench.networks import NETWORKS, describe
from bench.networks.catalogue import checked_layers
from bench.values import checked
from bench.whole_trial import check


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
