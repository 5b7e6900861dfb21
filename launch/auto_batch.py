"""--auto-batch of bench.sweep: the largest batch per device, for each network."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.auto_batch import BatchProbe, find, narrowed
from bench.data.partition import whole_data
from bench.engines.catalog import find_engine
from bench.errors import SpecError, error_line, parse_int
from bench.settings.secrets import revealed
from bench.sweep import Sweep
from bench.training.options import MOST_BATCH
from bench.trial import FIELDS, Trial
from im2rec_tools.terminal import echo
from launch.hosts import Host
from launch.job.plan import plan
from launch.sweep import ClusterSetup, points
from results.errors import StoreError
from results.run_folder import BATCHES
from results.store import write_text

# Points with equal values of these have the same batch, so that they can be compared.
_ALIKE = (
    *("mode", "network", "num_layers", "image_shape", "num_classes", "dtype", "device"),
    *("options", "env", "python", "costs"),
)


# Fields that change the memory of a batch, but keep points comparable.
_CHANGING = ("engine", "channels_last", "compile")


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Layout of a point's processes and devices on one machine.

    `variant` has the engine and its settings that change how much memory a batch needs, unless all
    have their defaults.
    """

    devices: int
    store: str
    workers: int
    servers: int
    variant: tuple[str, ...] = field(default=(), repr=False)

    def holds(self, other: "Layout") -> bool:
        """Return whether a batch that fits this layout fits the other."""
        alike = self.devices == other.devices and self.store == other.store
        alike = alike and self.variant == other.variant
        return alike and self.workers >= other.workers and self.servers >= other.servers


def check_fitting(what: Sweep, hosts: Sequence[Host]) -> None:
    """Raise SpecError if --auto-batch cannot work for all points of a sweep."""
    if hosts:
        raise SpecError(
            error_line(
                "--auto-batch",
                expected="no hosts, because it runs on this machine only",
                fix=(
                    "Run 'python -m bench.auto_batch' on a host (with --workers N if N workers "
                    "share it), and set its result as batch_per_device"
                ),
            )
        )
    for trial in what.trials:
        if trial.scripted:
            raise SpecError(
                error_line(
                    "--auto-batch",
                    problem="the simulated engine needs no memory",
                    fix="Leave out --auto-batch",
                )
            )
        if trial.reported:
            problem = f"{trial.name} runs a program, which allocates its own memory"
            raise SpecError(error_line("--auto-batch", problem=problem, fix="Set batch_per_device"))
        if trial.mode not in {"synthetic", "real"}:
            raise SpecError(
                error_line(
                    "--auto-batch", problem=f"{trial.name} does not train", fix="Remove this point"
                )
            )
        if trial.layout.emulate and trial.layout.device == "gpu":
            raise SpecError(
                error_line(
                    "--auto-batch",
                    problem=f"workers of {trial.name} may share GPUs",
                    fix="Set emulate = false",
                )
            )


def fitting(what: Sweep, where: ClusterSetup, folder: Path, most: Any) -> Sweep:
    """Set the largest batch up to `most` for all points of each network.

    The results are printed, and kept in the run's folder, so that a resumed run uses the same.
    """
    limit = _limit(most)
    points(what, where)  # report mistakes before the long search
    kept, trials = _kept(folder), []
    for alike in _groups(what):
        name, key = _name(alike), _key(alike, limit)
        known = key in kept
        if not known:
            kept[key] = _found(alike, where, limit, name)
            _keep(folder, kept)
        before = " (found earlier in this run)" if known else ""
        echo(f"{name}: {kept[key]} images per device{before}")
        trials += [trial.replace(batch_per_device=kept[key]) for trial in alike]
    return _in_order(what, trials)


def known_batches(what: Sweep, folder: Path, most: Any) -> tuple[Sweep, list[str]]:
    """Set the batches that a run folder keeps; also return the networks without one."""
    limit, kept, trials, unknown = _limit(most), _kept(folder), list[Trial](), list[str]()
    for alike in _groups(what):
        batch = kept.get(_key(alike, limit))
        unknown += [_name(alike)] * (batch is None)
        trials += [trial.replace(batch_per_device=batch or 1) for trial in alike]
    return _in_order(what, trials), unknown


def _limit(most: Any) -> int:
    return MOST_BATCH if most is True else parse_int("--auto-batch", str(most), most=MOST_BATCH)


def _groups(what: Sweep) -> list[list[Trial]]:
    """Return the trials in groups that have the same batch."""
    groups: dict[tuple[Any, ...], list[Trial]] = {}
    for trial in what.trials:
        groups.setdefault(tuple(trial.value(name) for name in _ALIKE), []).append(trial)
    return list(groups.values())


def _name(alike: Sequence[Trial]) -> str:
    return f"{alike[0].label} {alike[0].training.dtype}"


def _key(alike: Sequence[Trial], limit: int) -> str:
    layouts = {layout_of(trial) for trial in alike}
    words = [*sorted({str(one) for one in layouts}), *sorted({*map(_words, layouts)} - {""})]
    return json.dumps([limit, *(alike[0].value(name) for name in _ALIKE), *words])


def _words(layout: Layout) -> str:
    return " ".join(layout.variant)


def _in_order(what: Sweep, trials: list[Trial]) -> Sweep:
    """Return the sweep with these trials in the order of its own."""
    order = {trial.replace(batch_per_device=0): n for n, trial in enumerate(what.trials)}
    trials.sort(key=lambda trial: order[trial.replace(batch_per_device=0)])
    return replace(what, trials=tuple(trials))


def _found(trials: Sequence[Trial], where: ClusterSetup, most: int, name: str) -> int:
    """Find the largest batch that fits all of these trials.

    The fullest layout comes first.
    """
    layouts = {layout_of(trial): trial for trial in trials}
    done: list[Layout] = []
    batch = 0
    for layout in sorted(layouts, key=lambda one: (-one.devices * one.workers, -one.servers)):
        if any(other.holds(layout) for other in done):
            continue
        tried = _tried(layouts[layout], layout, where, name)
        batch = narrowed(tried, batch) if batch else find(tried, most)
        done.append(layout)
    for trial in (trial for trial in trials if trial.mode == "real"):
        # A worker's share of the data has no more images.
        devices = trial.workers * trial.layout.devices_per_worker
        batch = min(batch, max(1, whole_data(trial.data.train).total // devices))
    return batch


def layout_of(trial: Trial) -> Layout:
    """Return the layout of a trial's processes that share memory."""
    # Other processes on the machine do not share a GPU's memory.
    shared = trial.layout.device == "cpu"
    kind = "device" if "device" in trial.layout.kvstore else "local"
    filled = {"device": trial.layout.device, "devices": 1, "devices_per_host": 1}
    find_engine(trial.engine).fill(filled)
    changed = [name for name in _CHANGING if trial.value(name) != FIELDS[name].default]
    return Layout(
        devices=trial.layout.devices_per_worker,
        store=kind if trial.layout.devices_per_worker > 1 else str(filled["kvstore"]),
        variant=tuple(f"{name} {trial.value(name)}" for name in changed),
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
        raise StoreError(
            error_line(path, problem="cannot be read", fix="Remove it to search again")
        ) from error


def _keep(folder: Path, kept: dict[str, int]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            error_line(folder, problem=f"cannot be created ({error.strerror})")
        ) from error
    write_text(folder / BATCHES, json.dumps(kept, indent=1) + "\n")
