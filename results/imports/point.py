"""The trial of imported logs, from their content and a person's description."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bench.errors import SpecError, quoted
from bench.kvstores import LOCAL, is_distributed
from bench.networks import NETWORKS, named
from bench.settings.parts import DEVICE_KINDS, DTYPES, MOST_DEVICES
from bench.trial import Trial, composed
from im2rec_tools.errors import brief
from results.imports.arguments import BYTEPS, HOROVOD
from results.imports.log import Format

MODES = ("real", "synthetic")
DEVICES = (*DEVICE_KINDS, "other")
_KNOWN = {"inceptionv3": "inception-v3", "inception3": "inception-v3"}
_LAYERED = re.compile(r"(resnet|vgg)[-_]?(\d+)")
# Each as an option, and the names that what is needed may be said by.
_NEEDED = {
    "--network NAME": ("network",),
    "--devices N": ("devices", "devices_per_worker"),
    "--batch-per-device N": ("batch_per_device", "worker_batch", "global_batch", "product"),
}
_SHAPE = (3, 224, 224)
# In a CSV file's cell, spreadsheets compute what begins so.
_FORMULA = ("=", "+", "-", "@")
# The option that says each thing.
_OPTIONS = {
    "network": "--network",
    "devices": "--devices",
    "devices_per_worker": "--devices",
    "hosts": "--hosts",
    "workers": "--workers",
    "kvstore": "--kvstore",
    "dtype": "--dtype",
    "mode": "--data",
    "device": "--device",
    "batch_per_device": "--batch-per-device",
    "worker_batch": "--batch-per-device",
    "global_batch": "--batch-per-device",
}

# A stretch of a log is a window of one step; nobody chose how many there are.
_MEASURING = {"steps_per_window": 1, "windows": 0, "precision": 0.0, "budget_seconds": 0.0}
# How the engine of an imported point begins; the name of the format follows.
IMPORTED = "imported "


@dataclass(frozen=True, kw_only=True)
class LogDescription:
    """What a person says of a log's point; 0 or "" where they do not.

    speeds_of  whose images a speed of the log counts, one of `log.SPEEDS_OF`
    warmup  stretches at the front of each worker that do not count; None: as the format has it
    """

    network: str = ""
    devices: int = 0
    hosts: int = 0
    devices_per_host: int = 0
    workers: int = 0
    batch_per_device: int = 0
    kvstore: str = ""
    dtype: str = ""
    mode: str = ""
    device: str = ""
    speeds_of: str = ""
    warmup: int | None = None


def network(name: str) -> tuple[str, int | None]:
    """Family and depth of one of ours, in whatever spelling; of any other the name as it is."""
    plain = name.strip().lower()
    layered = _LAYERED.fullmatch(plain)
    plain = f"{layered[1]}-{layered[2]}" if layered else _KNOWN.get(plain, plain)
    try:
        return named(plain)
    except SpecError:
        return name.strip(), None


def trial(
    where: str, asked: LogDescription, said: Mapping[str, Any], format_: Format, ranks: int
) -> Trial:
    """The trial, of which `ranks` workers print speeds; `where` names the log.

    Raises SpecError for what neither says, what they say differently and what cannot be.
    """
    point = _Point(where, asked, said)
    point.check_whole(ranks)
    family, layers = network(point.network())
    hosts, full = point.hosts()
    workers = point.workers(max(hosts, ranks) if "worker" in format_.of else 1)
    devices = point.devices(workers)
    if point.single and not asked.workers and not said.get("workers"):
        workers = devices  # a rank has one
    full = full or -(-devices // hosts)
    if devices % workers or -(-devices // full) != hosts:
        raise SpecError(
            f"{where}: {devices} devices do not fill {hosts} hosts of {full} with {workers} "
            f"workers. Check --devices, --hosts, --devices-per-host and --workers"
        )
    own = 1 if format_.single else devices // workers
    batch, fixed = point.batches(devices, workers)
    usual = NETWORKS[family].image_shape if family in NETWORKS else _SHAPE
    return composed(
        {
            "engine": f"{IMPORTED}{format_.name}",
            "mode": point.one_of("mode", MODES) or format_.mode,
            "network": family,
            "num_layers": layers,
            "image_shape": said.get("image_shape", usual),
            "num_classes": said.get("num_classes", 1000),
            "gc_type": point.printable("gc_type", said.get("gc_type", "none")),
            "kvstore": point.either("kvstore") or format_.kvstore,
            "device": point.one_of("device", DEVICES) or "gpu",
            "dtype": point.one_of("dtype", DTYPES) or "float32",
            "devices": devices,
            "devices_per_worker": own,
            "devices_per_host": full,
            "batch_per_device": batch,
            "global_batch_fixed": fixed,
            "warmup_windows": format_.warmup if asked.warmup is None else asked.warmup,
            **_MEASURING,
        }
    )


def assumed_facts(asked: LogDescription, said: Mapping[str, Any], point: Trial) -> Iterator[str]:
    """What of the point neither the log nor the person says."""
    taken = {
        "mode": f"{point.mode} images",
        "device": point.layout.device,
        "dtype": point.training.dtype,
    }
    yield from (
        text for name, text in taken.items() if not (getattr(asked, name) or said.get(name))
    )
    if point.model.network not in NETWORKS and "image_shape" not in said:
        yield f"image_shape {','.join(map(str, point.model.image_shape))}"


@dataclass(frozen=True)
class _Point:
    where: str
    asked: LogDescription
    said: Mapping[str, Any]

    @property
    def single(self) -> bool:
        """Whether each rank has one device, as under Horovod and BytePS."""
        return not {HOROVOD, BYTEPS}.isdisjoint({self.asked.kvstore, self.said.get("kvstore")})

    def either(self, name: str) -> Any:
        """What is said of it, by the person or by the log; SpecError where they differ."""
        asked, said = getattr(self.asked, name), self.said.get(name)
        if asked and said and asked != said:
            self._differ(name, said, asked)
        return self.printable(name, asked or said)

    def network(self) -> str:
        """Its name as the log has it, or as the person does if it is one of the log's."""
        asked, said = self.asked.network, self.said.get("network", "")
        names = self.said.get("also_network") or filter(None, (said,))
        known = [network(name) for name in names]
        if asked and known and network(asked) not in known:
            self._differ("network", said, asked)
        return str(self.printable("network", asked or said))

    def printable(self, name: str, found: Any) -> Any:
        if isinstance(found, str) and not found.isprintable():
            raise SpecError(
                f"{self.where}: {name}: expected printable characters, got {quoted(found)}"
            )
        if isinstance(found, str) and found[:1] in _FORMULA:
            raise SpecError(
                f"{self.where}: {name}: expected a name that does not begin with one of "
                f"{' '.join(_FORMULA)}, which a spreadsheet takes for a formula; got "
                f"{quoted(found)}"
            )
        return found

    def _differ(self, name: str, said: object, asked: object) -> None:
        what = name.replace("_", " ")
        raise SpecError(
            f"{self.where}: the log says {brief(said)} ({what}), {_OPTIONS[name]} says {asked}. "
            f"Leave the option out if the log is right, or name the log that it is for"
        )

    def check_whole(self, ranks: int) -> None:
        """Raises SpecError naming the options for all that neither says.

        `ranks` print speeds. How many devices one rank has is no statement about a job of several.
        """
        lacking = [
            option
            for option, names in _NEEDED.items()
            if not any(getattr(self.asked, name, 0) or self.said.get(name) for name in names)
        ]
        devices = "--devices N"
        if self.single and (self._stated_workers() or ranks > 1 or self.asked.workers):
            lacking = [option for option in lacking if option != devices]
        elif self._of_one_rank(ranks) and devices not in lacking:
            lacking.append(devices)
        if lacking:
            raise SpecError(
                f"{self.where}: expected a log that says all of its point; add {' '.join(lacking)}"
            )
        sixteen = self.said.get("sixteen")
        if sixteen and not self.asked.dtype:
            raise SpecError(
                f"{self.where}: line {sixteen} mentions a 16-bit number format and nothing says "
                f"what the job computes in; add --dtype NAME"
            )

    def _of_one_rank(self, ranks: int) -> bool:
        """Whether what the log says of devices is of one rank of an unknown number."""
        asked, said = self.asked, self.said
        if asked.devices or asked.workers or asked.hosts or said.get("devices"):
            return False
        if self._stated_workers():
            return False
        store = asked.kvstore or said.get("kvstore", "")
        several = self.single or is_distributed(store) or said.get("shares") == 0
        return several and ranks <= 1

    def _ranks_by_batch(self) -> int:
        """How many ranks the batches of the job and of a rank come to; 0 if they do not say."""
        whole, own = self.said.get("global_batch", 0), self.said.get("worker_batch", 0)
        own = own or (self.said.get("batch_per_device", 0) if self.single else 0)
        return int(whole // own) if own and whole % own == 0 else 0

    def _stated_workers(self) -> int:
        """Processes of the job, as the log has them; 0 if it does not say."""
        said, by_batch = self.said.get("workers", 0), self._ranks_by_batch()
        if self.single and self.asked.devices in {said, by_batch} - {0}:
            return self.asked.devices
        if said and by_batch and said != by_batch:
            raise SpecError(
                f"{self.where}: {said} ranks print their arguments, and the global batch of "
                f"{self.said['global_batch']} is that of {by_batch} ranks of "
                f"{self.said['worker_batch']} images. Give the log of one whole job, or add "
                f"--devices N"
            )
        store = str(self.said.get("kvstore", ""))
        is_local = store in LOCAL or store.startswith("local_")
        alone = is_local and self.said.get("devices_per_worker", 0) > 0
        return int(said or by_batch or alone)

    def workers(self, found: int) -> int:
        """Processes of the job; `found` if nothing says how many."""
        stated = self._stated_workers()
        if stated and self.asked.workers and stated != self.asked.workers:
            self._differ("workers", stated, self.asked.workers)
        each, devices = self.said.get("devices_per_worker", 0), self.asked.devices
        implied = devices // each if each and devices % each == 0 else 0
        return int(self.asked.workers or stated or implied or found)

    def one_of(self, name: str, known: Iterable[str]) -> str:
        """One of those we know, or "" where nothing is said."""
        found = str(self.either(name) or "")
        if found and found not in known:
            where = _OPTIONS[name] if getattr(self.asked, name) else f"{self.where}: {name}"
            raise SpecError(f"{where}: expected one of {', '.join(known)}, got {quoted(found)}")
        return found

    def hosts(self) -> tuple[int, int]:
        """How many, and how many devices a full one has, 0 where nothing says so."""
        full = self.asked.devices_per_host
        devices = self.asked.devices or self.said.get("devices", 0)
        least = -(-devices // full) if full and devices else 1
        return self.either("hosts") or least, full

    def devices(self, workers: int) -> int:
        """Of the whole job."""
        each = self.said.get("devices_per_worker") or (1 if self.single else 0)
        said = self.said.get("devices") or each * self._stated_workers()
        if said and self.asked.devices and said != self.asked.devices:
            self._differ("devices", said, self.asked.devices)
        if each and self.asked.devices % each:
            self._differ("devices_per_worker", each, self.asked.devices)
        found: int = self.asked.devices or said or each * workers
        if not found:
            raise SpecError(f"{self.where}: the log does not say how many devices; add --devices N")
        if not 0 < found <= MOST_DEVICES:
            raise SpecError(f"{self.where}: expected 1 to {MOST_DEVICES} devices, got {found}")
        return found

    def batches(self, devices: int, workers: int) -> tuple[int, int]:
        """Images a step on one device and 0, or 0 and those of a job that cannot share evenly."""
        each, own = self.said.get("devices_per_worker", 0), self.said.get("worker_batch", 0)
        if each and own % each and not self.single:
            asked = self.asked.batch_per_device
            if asked and asked not in {own // each, own // each + 1}:
                self._differ("worker_batch", own, f"{asked} per device")
            return 0, own * workers
        return self._batch(devices, workers), 0

    def _batch(self, devices: int, workers: int) -> int:
        """Images a step on one device, as all that is said of batches has it."""
        asked: int = self.asked.batch_per_device
        found = {asked} - {0}
        for name, parts in (
            ("batch_per_device", 1),
            ("worker_batch", devices // workers),
            ("global_batch", devices),
        ):
            said = self.said.get(name)
            if not said:
                continue
            if asked and asked * parts != said:
                self._differ(name, said, f"{asked} per device, so {asked * parts}")
            if said % parts:
                raise SpecError(
                    f"{self.where}: its {name.replace('_', ' ')} of {said} does not divide by the "
                    f"{parts} devices that share it. Check --devices, --hosts and --workers"
                )
            found.add(int(said // parts))
        if len(found) > 1:
            raise SpecError(
                f"{self.where}: what the log says of batches comes to {max(found)} and "
                f"{min(found)} images per device. Check --devices, --hosts and --workers"
            )
        if product := self.said.get("product"):
            found.add(self._by_product(product, devices // workers, found))
        return found.pop()

    def _by_product(self, product: int, devices: int, found: set[int]) -> int:
        """The batch of a device where a log's figures come to one of a device or of a worker."""
        likely = {product} | ({product // devices} if product % devices == 0 else set())
        if not found and len(likely) == 1:
            return product
        if not found:
            raise SpecError(
                f"{self.where}: its figures come to a batch of {product}, of each device or of all "
                f"{devices} of a worker. Add --batch-per-device {product} (CIFAR-10's multi-GPU "
                f"script) or --batch-per-device {product // devices}"
            )
        if not found <= likely:
            self._differ("batch_per_device", product, max(found))
        return max(found)
