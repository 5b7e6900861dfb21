"""Trial of imported logs, from their content and the user's options."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bench.errors import SpecError, error_line, quoted
from bench.kvstores import LOCAL, find_kvstore
from bench.logs.arguments import BYTEPS, HOROVOD
from bench.logs.log import Format
from bench.networks import NETWORKS, named
from bench.settings.parts import DEVICE_KINDS, DTYPES, MOST_DEVICES
from bench.trial import Trial, composed
from im2rec_tools.errors import brief

MODES = ("real", "synthetic")
DEVICES = (*DEVICE_KINDS, "other")
_KNOWN = {"inceptionv3": "inception-v3", "inception3": "inception-v3"}
_LAYERED = re.compile(r"(resnet|vgg)[-_]?(\d+)")
# Required options, and the settings of a log that replace each.
_NEEDED = {
    "--network NAME": ("network",),
    "--devices N": ("devices", "devices_per_worker"),
    "--batch-per-device N": ("batch_per_device", "worker_batch", "global_batch", "product"),
}
_SHAPE = (3, 224, 224)
# Spreadsheets evaluate CSV cells that begin with these.
_FORMULA = ("=", "+", "-", "@")
# The option of each setting.
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

# An interval of a log is a window of one step; their number is not a setting.
_MEASURING = {"steps_per_window": 1, "windows": 0, "precision": 0.0, "budget_seconds": 0.0}
# Prefix of an imported point's engine; the name of the format follows.
IMPORTED = "imported "


@dataclass(frozen=True, kw_only=True)
class LogDescription:
    """The user's options for a log's point; 0 or "" if not given.

    speeds_of  whose images a throughput counts: a key of `log.SPEEDS_OF`
    warmup  warm-up intervals per worker; None: the format's default
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
    """Return family and depth of a known network; else the unchanged name."""
    plain = name.strip().lower()
    layered = _LAYERED.fullmatch(plain)
    plain = f"{layered[1]}-{layered[2]}" if layered else _KNOWN.get(plain, plain)
    try:
        return named(plain)
    except SpecError:
        return name.strip(), None


def trial(
    where: str, asked: LogDescription, stated: Mapping[str, Any], format_: Format, ranks: int
) -> Trial:
    """Return the trial of a log in which `ranks` workers print throughput.

    where: the log, for errors. Raises SpecError for missing, contradictory or impossible settings.
    """
    point = _Point(where, asked, stated)
    point.check_whole(ranks)
    family, layers = network(point.network())
    hosts, full = point.hosts()
    workers = point.workers(max(hosts, ranks) if "worker" in format_.of else 1)
    devices = point.devices(workers)
    if point.single and not asked.workers and not stated.get("workers"):
        workers = devices  # one per rank
    full = full or -(-devices // hosts)
    if devices % workers or -(-devices // full) != hosts:
        raise SpecError(
            error_line(
                where,
                problem=f"{devices} devices do not fill {hosts} hosts of {full} with {workers} "
                f"workers",
                fix="Check --devices, --hosts, --devices-per-host and --workers",
            )
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
            "image_shape": stated.get("image_shape", usual),
            "num_classes": stated.get("num_classes", 1000),
            "gc_type": point.printable("gc_type", stated.get("gc_type", "none")),
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


def assumed_facts(asked: LogDescription, stated: Mapping[str, Any], point: Trial) -> Iterator[str]:
    """Yield the settings that neither the log nor the options give, for a note."""
    taken = {
        "mode": f"{point.mode} images",
        "device": point.layout.device,
        "dtype": point.training.dtype,
    }
    yield from (
        text for name, text in taken.items() if not (getattr(asked, name) or stated.get(name))
    )
    if point.model.network not in NETWORKS and "image_shape" not in stated:
        yield f"image_shape {','.join(map(str, point.model.image_shape))}"


@dataclass(frozen=True)
class _Point:
    where: str
    asked: LogDescription
    stated: Mapping[str, Any]

    @property
    def single(self) -> bool:
        """Whether each rank has one device, as with Horovod and BytePS."""
        return not {HOROVOD, BYTEPS}.isdisjoint({self.asked.kvstore, self.stated.get("kvstore")})

    def either(self, name: str) -> Any:
        """Return a setting from the option or the log; raise SpecError if they differ."""
        asked, stated = getattr(self.asked, name), self.stated.get(name)
        if asked and stated and asked != stated:
            self._differ(name, stated, asked)
        return self.printable(name, asked or stated)

    def network(self) -> str:
        """Return the network from the option or the log; raise SpecError if they differ."""
        asked, stated = self.asked.network, self.stated.get("network", "")
        names = self.stated.get("also_network") or filter(None, (stated,))
        known = [network(name) for name in names]
        if asked and known and network(asked) not in known:
            self._differ("network", stated, asked)
        return str(self.printable("network", asked or stated))

    def printable(self, name: str, found: Any) -> Any:
        """Return a setting; raise SpecError for control characters or a formula."""
        where = f"{self.where}: {name}"
        if isinstance(found, str) and not found.isprintable():
            raise SpecError(error_line(where, expected="printable characters", got=quoted(found)))
        if isinstance(found, str) and found[:1] in _FORMULA:
            expected = "a name that does not begin with a formula character of spreadsheets "
            expected += f"({' '.join(_FORMULA)})"
            raise SpecError(error_line(where, expected=expected, got=quoted(found)))
        return found

    def _differ(self, name: str, stated: object, asked: object) -> None:
        setting, option = name.replace("_", " "), _OPTIONS[name]
        raise SpecError(
            error_line(
                self.where,
                problem=f"{setting} = {brief(stated)} in the log, but {option} gives {asked}",
                fix=f"Remove {option}, or give the log that it belongs to",
            )
        )

    def check_whole(self, ranks: int) -> None:
        """Raise SpecError with the options for settings that the log lacks.

        `ranks` print throughput. The devices of one rank do not give those of a larger job.
        """
        lacking = [
            option
            for option, names in _NEEDED.items()
            if not any(getattr(self.asked, name, 0) or self.stated.get(name) for name in names)
        ]
        devices = "--devices N"
        if self.single and (self._stated_workers() or ranks > 1 or self.asked.workers):
            lacking = [option for option in lacking if option != devices]
        elif self._of_one_rank(ranks) and devices not in lacking:
            lacking.append(devices)
        if lacking:
            raise SpecError(
                error_line(
                    self.where,
                    problem="the log does not contain all required settings",
                    fix=f"Add {' '.join(lacking)}",
                )
            )
        sixteen = self.stated.get("sixteen")
        if sixteen and not self.asked.dtype:
            raise SpecError(
                error_line(
                    self.where,
                    problem=f"line {sixteen} mentions a 16-bit data type, and the log does not "
                    f"contain the compute data type",
                    fix="Add --dtype NAME",
                )
            )

    def _of_one_rank(self, ranks: int) -> bool:
        """Return whether the log has the devices of one rank, but no number of ranks."""
        asked, stated = self.asked, self.stated
        if asked.devices or asked.workers or asked.hosts or stated.get("devices"):
            return False
        if self._stated_workers():
            return False
        store = asked.kvstore or stated.get("kvstore", "")
        several = self.single or find_kvstore(store).spans or stated.get("shares") == 0
        return several and ranks <= 1

    def _ranks_by_batch(self) -> int:
        """Return the number of ranks by the batches of job and rank; 0 if unknown."""
        whole, own = self.stated.get("global_batch", 0), self.stated.get("worker_batch", 0)
        own = own or (self.stated.get("batch_per_device", 0) if self.single else 0)
        return int(whole // own) if own and whole % own == 0 else 0

    def _stated_workers(self) -> int:
        """Return the number of worker processes by the log; 0 if unknown."""
        stated, by_batch = self.stated.get("workers", 0), self._ranks_by_batch()
        if self.single and self.asked.devices in {stated, by_batch} - {0}:
            return self.asked.devices
        if stated and by_batch and stated != by_batch:
            raise SpecError(
                error_line(
                    self.where,
                    problem=f"{stated} ranks print their arguments, but the global batch of "
                    f"{self.stated['global_batch']} is that of {by_batch} ranks of "
                    f"{self.stated['worker_batch']} images",
                    fix="Give the log of one whole job, or add --devices N",
                )
            )
        store = str(self.stated.get("kvstore", ""))
        is_local = store in LOCAL or store.startswith("local_")
        alone = is_local and self.stated.get("devices_per_worker", 0) > 0
        return int(stated or by_batch or alone)

    def workers(self, found: int) -> int:
        """Return the number of worker processes; `found` if not given."""
        stated = self._stated_workers()
        if stated and self.asked.workers and stated != self.asked.workers:
            self._differ("workers", stated, self.asked.workers)
        each, devices = self.stated.get("devices_per_worker", 0), self.asked.devices
        implied = devices // each if each and devices % each == 0 else 0
        return int(self.asked.workers or stated or implied or found)

    def one_of(self, name: str, known: Iterable[str]) -> str:
        """Return a setting with known values, or "" if not given."""
        found = str(self.either(name) or "")
        if found and found not in known:
            where = _OPTIONS[name] if getattr(self.asked, name) else f"{self.where}: {name}"
            expected = f"one of {', '.join(known)}"
            raise SpecError(error_line(where, expected=expected, got=quoted(found)))
        return found

    def hosts(self) -> tuple[int, int]:
        """Return the number of hosts and the devices of a full one (0 if unknown)."""
        full = self.asked.devices_per_host
        devices = self.asked.devices or self.stated.get("devices", 0)
        least = -(-devices // full) if full and devices else 1
        return self.either("hosts") or least, full

    def devices(self, workers: int) -> int:
        """Return the number of devices of the whole job."""
        each = self.stated.get("devices_per_worker") or (1 if self.single else 0)
        stated = self.stated.get("devices") or each * self._stated_workers()
        if stated and self.asked.devices and stated != self.asked.devices:
            self._differ("devices", stated, self.asked.devices)
        if each and self.asked.devices % each:
            self._differ("devices_per_worker", each, self.asked.devices)
        found: int = self.asked.devices or stated or each * workers
        if not found:
            problem = "the log does not contain the number of devices"
            raise SpecError(error_line(self.where, problem=problem, fix="Add --devices N"))
        if not 0 < found <= MOST_DEVICES:
            expected = f"1 to {MOST_DEVICES} devices"
            raise SpecError(error_line(self.where, expected=expected, got=found))
        return found

    def batches(self, devices: int, workers: int) -> tuple[int, int]:
        """Return (images per step and device, 0), or (0, the job's) if devices differ."""
        each, own = self.stated.get("devices_per_worker", 0), self.stated.get("worker_batch", 0)
        if each and own % each and not self.single:
            asked = self.asked.batch_per_device
            if asked and asked not in {own // each, own // each + 1}:
                self._differ("worker_batch", own, f"{asked} per device")
            return 0, own * workers
        return self._batch(devices, workers), 0

    def _batch(self, devices: int, workers: int) -> int:
        """Return images per step on one device; SpecError if batches contradict."""

        asked: int = self.asked.batch_per_device
        found = {asked} - {0}
        for name, parts in (
            ("batch_per_device", 1),
            ("worker_batch", devices // workers),
            ("global_batch", devices),
        ):
            stated = self.stated.get(name)
            if not stated:
                continue
            if asked and asked * parts != stated:
                self._differ(name, stated, f"{asked} per device, so {asked * parts}")
            if stated % parts:
                raise SpecError(
                    error_line(
                        self.where,
                        problem=f"the {name.replace('_', ' ')} of {stated} is not divisible by its "
                        f"{parts} devices",
                        fix="Check --devices, --hosts and --workers",
                    )
                )
            found.add(int(stated // parts))
        if len(found) > 1:
            raise SpecError(
                error_line(
                    self.where,
                    problem=f"the batches in the log give both {max(found)} and {min(found)} "
                    f"images per device",
                    fix="Check --devices, --hosts and --workers",
                )
            )
        if product := self.stated.get("product"):
            found.add(self._by_product(product, devices // workers, found))
        return found.pop()

    def _by_product(self, product: int, devices: int, found: set[int]) -> int:
        """Return the batch per device from a product of a device or a worker."""
        likely = {product} | ({product // devices} if product % devices == 0 else set())
        if not found and len(likely) == 1:
            return product
        if not found:
            raise SpecError(
                error_line(
                    self.where,
                    problem=f"the figures give a batch of {product}, either per device or for all "
                    f"{devices} devices of a worker",
                    fix=f"Add --batch-per-device {product} (CIFAR-10's multi-GPU script) or "
                    f"--batch-per-device {product // devices}",
                )
            )
        if not found <= likely:
            self._differ("batch_per_device", product, max(found))
        return max(found)
