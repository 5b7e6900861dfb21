"""bench.sweep --auto-batch: the largest batch a device that fits, for each network of a sweep."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.auto_batch import BatchProbe, find, narrowed
from bench.data.partition import whole_data
from bench.errors import SpecError, parse_int
from bench.settings.secrets import revealed
from bench.sweep import Sweep
from bench.training.options import MOST_BATCH
from bench.trial import Trial
from im2rec_tools.terminal import echo
from launch.hosts import Host
from launch.job.plan import plan
from launch.sweep import ClusterSetup, points
from results.errors import StoreError
from results.run_folder import BATCHES
from results.store import write_text

# Points that are alike in these have one batch, so that they can be compared.
_ALIKE = (
    *("mode", "network", "num_layers", "image_shape", "num_classes", "dtype", "device"),
    *("options", "env", "python", "costs"),
)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a point's devices are shared by processes of one machine."""

    devices: int
    store: str
    workers: int
    servers: int

    def holds(self, other: "Layout") -> bool:
        """Whether a batch that fits this one fits the other."""
        alike = self.devices == other.devices and self.store == other.store
        return alike and self.workers >= other.workers and self.servers >= other.servers


def check_fitting(what: Sweep, hosts: Sequence[Host]) -> None:
    """SpecError where no largest batch can be found for all points of a sweep."""
    if hosts:
        raise SpecError(
            "--auto-batch tries on this machine, not on hosts; run 'python -m bench.auto_batch' on "
            "one of them (--workers N where N workers share it) and set what it finds as "
            "batch_per_device"
        )
    for trial in what.trials:
        if trial.engine == "fake":
            raise SpecError("--auto-batch: the fake engine takes no memory; leave it out")
        if trial.mode not in {"synthetic", "real"}:
            raise SpecError(f"--auto-batch: {trial.name} trains nothing; leave that point out")
        if trial.layout.emulate and trial.layout.device == "gpu":
            raise SpecError(f"--auto-batch: workers of {trial.name} may share GPUs (emulate)")


def fitting(what: Sweep, where: ClusterSetup, folder: Path, most: Any) -> Sweep:
    """The sweep with the largest batch for all points of a network, up to `most`; says each.

    What was found for a run is kept in its folder, so that it goes on with the same.
    """
    limit = MOST_BATCH if most is True else parse_int("--auto-batch", str(most), most=MOST_BATCH)
    points(what, where)  # whatever is wrong with them is reported before long tries
    groups: dict[tuple[Any, ...], list[Trial]] = {}
    for trial in what.trials:
        groups.setdefault(tuple(trial.value(name) for name in _ALIKE), []).append(trial)
    kept, trials = _kept(folder), []
    for alike in groups.values():
        name = f"{alike[0].label} {alike[0].training.dtype}"
        layouts = sorted({str(_layout(trial)) for trial in alike})
        key = json.dumps([limit, *(alike[0].value(field) for field in _ALIKE), *layouts])
        known = key in kept
        if not known:
            kept[key] = _found(alike, where, limit, name)
            _keep(folder, kept)
        before = ", as found before for this run" if known else ""
        echo(f"{name}: {kept[key]} images a device{before}")
        trials += [trial.replace(batch_per_device=kept[key]) for trial in alike]
    order = {trial.replace(batch_per_device=0): n for n, trial in enumerate(what.trials)}
    trials.sort(key=lambda trial: order[trial.replace(batch_per_device=0)])
    return replace(what, trials=tuple(trials))


def _found(trials: Sequence[Trial], where: ClusterSetup, most: int, name: str) -> int:
    """The largest batch that fits every one of these trials; the fullest is tried first."""
    layouts = {_layout(trial): trial for trial in trials}
    done: list[Layout] = []
    batch = 0
    for layout in sorted(layouts, key=lambda one: (-one.devices * one.workers, -one.servers)):
        if any(other.holds(layout) for other in done):
            continue
        tried = _tried(layouts[layout], layout, where, name)
        batch = narrowed(tried, batch) if batch else find(tried, most)
        done.append(layout)
    for trial in (trial for trial in trials if trial.mode == "real"):
        # Each worker's share of the data has images for no more.
        devices = trial.workers * trial.layout.devices_per_worker
        batch = min(batch, max(1, whole_data(trial.data.train).total // devices))
    return batch


def _layout(trial: Trial) -> Layout:
    # A GPU's memory is its own, whoever else is on the machine.
    shared = trial.layout.device == "cpu"
    kind = "device" if "device" in trial.layout.kvstore else "local"
    return Layout(
        devices=trial.layout.devices_per_worker,
        store=kind if trial.layout.devices_per_worker > 1 else "local",
        workers=trial.workers if shared else 1,
        servers=trial.servers if shared else 0,
    )


def _tried(trial: Trial, layout: Layout, where: ClusterSetup, name: str) -> BatchProbe:
    alone = trial.replace(
        kvstore=layout.store,
        devices=layout.devices,
        devices_per_host=layout.devices,
        servers_per_host=0,
        server_hosts=0,
        gc_type="none",
    )
    (process,) = plan(alone, where.hosts, 0)
    return BatchProbe(
        command=process.argv,
        devices=layout.devices,
        gpu=trial.layout.device == "gpu",
        workers=layout.workers,
        servers=layout.servers,
        env=revealed(process.env),
        name=f"{name}: ",
    )


def _kept(folder: Path) -> dict[str, int]:
    path = folder / BATCHES
    try:
        found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return {str(key): int(batch) for key, batch in found.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise StoreError(f"{path}: cannot be read; remove it, and it is found anew") from error


def _keep(folder: Path, kept: dict[str, int]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder}: cannot be made ({error.strerror})") from error
    write_text(folder / BATCHES, json.dumps(kept, indent=1) + "\n")
