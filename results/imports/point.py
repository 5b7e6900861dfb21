"""The trial that logs are of: what the person says of it, what the logs say, both alike."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bench.arguments import DTYPES
from bench.errors import SpecError
from bench.networks import NETWORKS, named
from bench.trial import Trial
from bench.whole_trial import DEVICE_KINDS, MOST_DEVICES
from results.imports.log import Format

MODES = ("real", "synthetic")
_KNOWN = {"inceptionv3": "inception-v3", "inception3": "inception-v3"}
_LAYERED = re.compile(r"(resnet|vgg)[-_]?(\d+)")
# Each as an option, and the names that what is needed may be said by.
_NEEDED = {
    "--network NAME": ("network",),
    "--devices N": ("devices", "devices_per_worker"),
    "--batch-per-device N": ("batch_per_device", "worker_batch", "global_batch"),
}
_SHAPE = (3, 224, 224)


@dataclass(frozen=True, kw_only=True)
class Asked:
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


def trial(where: str, asked: Asked, said: Mapping[str, Any], format_: Format, ranks: int) -> Trial:
    """The trial, which `ranks` workers told of; `where` names the log.

    Raises SpecError for what neither says, what they say differently and what cannot be.
    """
    point = _Point(where, asked, said)
    point.check_whole()
    family, layers = network(str(point.either("network")))
    hosts, full = point.hosts()
    workers = point.either("workers") or (max(hosts, ranks) if "worker" in format_.of else 1)
    devices = point.devices(workers)
    full = full or -(-devices // hosts)
    if devices % workers or -(-devices // full) != hosts:
        raise SpecError(
            f"{where}: {devices} devices do not fill {hosts} hosts of {full} with {workers} "
            f"workers; look at --devices, --hosts, --devices-per-host and --workers"
        )
    own = 1 if format_.single else devices // workers
    return Trial(
        engine=f"imported {format_.name}",
        mode=point.one_of("mode", MODES) or format_.mode,
        network=family,
        num_layers=layers,
        image_shape=NETWORKS[family].image_shape if family in NETWORKS else _SHAPE,
        kvstore=point.either("kvstore") or format_.kvstore,
        device=point.one_of("device", DEVICE_KINDS) or "gpu",
        dtype=point.one_of("dtype", DTYPES) or "float32",
        devices=devices,
        devices_per_worker=own,
        devices_per_host=full,
        batch_per_device=point.batch(devices, workers),
        steps_per_window=1,
        warmup_windows=format_.warmup if asked.warmup is None else asked.warmup,
        windows=0,
        precision=0.0,
        budget_seconds=0.0,
    )


def granted(asked: Asked, said: Mapping[str, Any], point: Trial) -> Iterator[str]:
    """What of the point neither the log nor the person says, in one line; nothing where all is."""
    taken = {"mode": f"{point.mode} images", "device": point.device, "dtype": point.dtype}
    unsaid = [text for name, text in taken.items() if not (getattr(asked, name) or said.get(name))]
    if unsaid:
        yield (f"taken for granted, for neither the log nor an option says it: {', '.join(unsaid)}")


@dataclass(frozen=True)
class _Point:
    where: str
    asked: Asked
    said: Mapping[str, Any]

    def either(self, name: str) -> Any:
        """What is said of it, by the person or by the log; SpecError where they differ."""
        asked, said = getattr(self.asked, name), self.said.get(name)
        alike = network if name == "network" else (lambda one: one)
        if asked and said and alike(asked) != alike(said):
            self._differ(name, said, asked)
        found = asked or said
        if isinstance(found, str) and not found.isprintable():
            raise SpecError(
                f"{self.where}: {name}: expected printable characters, got {found!r:.60}"
            )
        return found

    def _differ(self, name: str, said: object, asked: object) -> None:
        option = f"--{name.replace('_', '-')}".replace("--mode", "--data")
        what = name.replace("_", " ")
        raise SpecError(
            f"{self.where}: the log says {said} ({what}), {option} says {asked}; leave the option "
            f"out if the log is right, or name the log that it is for"
        )

    def check_whole(self) -> None:
        """Raises SpecError naming the options for all that neither says."""
        lacking = [
            option
            for option, names in _NEEDED.items()
            if not any(getattr(self.asked, name, 0) or self.said.get(name) for name in names)
        ]
        if lacking:
            raise SpecError(
                f"{self.where}: the log does not say all that has to be known of its point; add "
                f"{' '.join(lacking)}"
            )

    def one_of(self, name: str, known: Iterable[str]) -> str:
        """One of those we know, or "" where nothing is said."""
        found = str(self.either(name) or "")
        if found and found not in known:
            option = "data" if name == "mode" else name
            raise SpecError(f"--{option}: expected one of {', '.join(known)}, got {found!r}")
        return found

    def hosts(self) -> tuple[int, int]:
        """How many, and how many devices a full one has, 0 where nothing says so."""
        full = self.asked.devices_per_host
        devices = self.asked.devices or self.said.get("devices", 0)
        least = -(-devices // full) if full and devices else 1
        return self.either("hosts") or least, full

    def devices(self, workers: int) -> int:
        """Of the whole job."""
        each = self.said.get("devices_per_worker")
        said = self.said.get("devices") or (each and each * workers)
        if said and self.asked.devices and said != self.asked.devices:
            self._differ("devices", said, self.asked.devices)
        found: int = self.asked.devices or said or 0
        if not 0 < found <= MOST_DEVICES:
            raise SpecError(f"{self.where}: expected 1 to {MOST_DEVICES} devices, got {found}")
        return found

    def batch(self, devices: int, workers: int) -> int:
        """Images a step on one device."""
        asked: int = self.asked.batch_per_device
        for name, parts in (
            ("batch_per_device", 1),
            ("worker_batch", devices // workers),
            ("global_batch", devices),
        ):
            said = self.said.get(name)
            if not said:
                continue
            if asked and asked * parts != said:
                self._differ(name, said, f"{asked} a device, so {asked * parts}")
            if said % parts:
                raise SpecError(
                    f"{self.where}: its {name.replace('_', ' ')} of {said} does not divide by the "
                    f"{parts} devices that share it; look at --devices, --hosts and --workers"
                )
            return int(said // parts)
        return asked
