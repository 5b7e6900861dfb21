"""The commands a person types: `fab --list`. Glue only, and the one place that prints errors."""

import functools
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fabric import Connection
from invoke.collection import Collection
from invoke.context import Context
from invoke.exceptions import Exit
from invoke.tasks import task

from bench.engines import ENGINES
from bench.errors import SpecError, is_whole
from bench.sweep import Sweep, load_sweep
from bench.trial import make
from im2rec_tools.codec import Recipe
from im2rec_tools.errors import DataError
from launch.errors import LaunchError
from launch.hosts import ROOT
from results.errors import StoreError

RUNS = ROOT / "results" / "runs"
Body = Callable[..., None]


def check_place(c: Context) -> None:
    """Raises LaunchError unless this runs once, on the master, in the checkout."""
    if isinstance(c, Connection):
        raise LaunchError(
            "-H runs a task once on each host; these tasks run once, on the master, and start "
            "what they need on the hosts. Leave -H out"
        )
    if Path.cwd() != ROOT:
        raise LaunchError(f"paths are relative to the checkout: run fab in {ROOT}")


def door(body: Body) -> Body:
    """Turns what a person has to mend into one line and exit code 2, an interrupt into 130."""

    @functools.wraps(body)
    def wrapped(c: Context, *args: Any, **kwargs: Any) -> None:
        try:
            check_place(c)
            body(c, *args, **kwargs)
        except (SpecError, DataError, LaunchError, StoreError) as error:
            raise Exit(f"error: {error}", code=2) from error
        except BrokenPipeError:
            # The reader, such as head, has seen enough; nothing is left to say it to.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise Exit(code=141) from None
        except KeyboardInterrupt:
            raise Exit(
                "interrupted; what was measured is kept, run it again to go on", 130
            ) from None

    return wrapped


def whole(option: str, text: str, least: int = 1) -> int:
    """The whole number that an option was given."""
    if not is_whole(text) or int(text) < least:
        raise SpecError(f"{option}: expected a whole number, {least} or more, got {text!r}")
    return int(text)


def folder_of(text: str) -> Path:
    """A folder whose name others are made from: DIR_val, DIR_rec."""
    folder = Path(os.path.normpath(text))
    if folder.name in {"", ".", ".."}:
        raise SpecError(f"expected a folder with a name of its own, got {text!r}")
    return folder


def run_folder(name: str) -> Path:
    """The folder of a run: below results/runs for a name, itself for a path, the newest for ''."""
    if name:
        return Path(name) if os.sep in name else RUNS / name
    runs = sorted(RUNS.glob("*/records.jsonl"), key=lambda path: path.stat().st_mtime)
    if not runs:
        raise StoreError(f"{RUNS}: no run yet; 'fab bench.sweep' makes one")
    return runs[-1].parent


def stamped(name: str) -> str:
    """A run name of its own for each call."""
    return f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def build_report(folder: Path) -> None:
    """Writes a run's report, prints its table and where the files are."""
    from plots.report import build
    from plots.table import show
    from results.run import load

    run = load(folder)
    paths = build(run)
    show(run)
    for path in paths:
        print(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
    if not run.complete:
        raise Exit("some points have no number; the table says why", code=5)


def measure(what: Sweep, run: str, port: str = "") -> None:
    """Runs what is left of a sweep into its run folder and reports it."""
    from launch.hosts import rehearse, this_machine
    from launch.sweep import Where, points, sweep
    from plots.screen import Bars, SweepScreen
    from results.store import Store

    fake = all(trial.engine == "fake" for trial in what.trials)
    most = max(what.trials, key=lambda trial: trial.hosts)
    hosts = rehearse(most.hosts, most.devices_per_host) if fake else (this_machine(),)
    where = Where(hosts=hosts, port=whole("--port", port) if port else None)
    wanted = points(what, where)
    store = Store(run_folder(run or what.name))
    try:
        with Bars() as bars:
            screen = SweepScreen(bars)
            for update in sweep(what, wanted, where, store):
                screen.show(update)
    finally:
        store.close()
    build_report(store.folder)


@task(help={"dir": "the folder to make", "images_per_class": "images of each of 10 photographs"})
@door
def data_sample(c, dir, images_per_class="70", seed="0"):  # type: ignore[no-untyped-def]
    """Make a small labelled tree of real photographs."""
    from im2rec_tools.sample import sample
    from plots.screen import Bars

    count = whole("--images-per-class", images_per_class)
    with Bars() as bars:
        for made in sample(folder_of(dir), images_per_class=count, seed=whole("--seed", seed, 0)):
            bars.show(f"images in {dir}", made.done, made.total)


@task(
    help={
        "dir": "labelled tree: a folder of images a class",
        "val_per_class": "images of each class that MOVE to DIR_val",
        "smaller": "images below the short edge: keep or enlarge",
    }
)
@door
def data_prepare(  # type: ignore[no-untyped-def]
    c,
    dir,
    val_per_class="12",
    train_shards="2",
    val_shards="1",
    short_edge="256",
    quality="90",
    smaller="keep",
    seed="0",
):
    """Split off a validation set, list, pack into DIR_rec and read back."""
    from im2rec_tools.prepare import Shard, Wanted, prepare
    from plots.screen import Bars

    if smaller not in {"keep", "enlarge"}:
        raise SpecError(f"--smaller: expected keep or enlarge, got {smaller!r}")
    if whole("--quality", quality) > 100:
        raise SpecError(f"--quality: expected 1 to 100, got {quality}")
    recipe = Recipe(
        short_edge=whole("--short-edge", short_edge), quality=int(quality), smaller=smaller
    )
    wanted = Wanted(
        val_per_class=whole("--val-per-class", val_per_class),
        train_shards=whole("--train-shards", train_shards),
        val_shards=whole("--val-shards", val_shards),
        seed=whole("--seed", seed, 0),
        recipe=recipe,
    )
    with Bars() as bars:
        for update in prepare(folder_of(dir), wanted):
            if isinstance(update, Shard):
                bad = f", {len(update.bad)} bad: {update.bad[0]}" if update.bad else ""
                size = f"{update.images} images of {update.classes} classes"
                bars.line(f"{update.path}: {size}, {update.bytes / 1e6:.1f} MB, read back{bad}")
            else:
                name, packed = update
                bars.show(f"packing {name}", packed.done, packed.total)


@task(
    help={"hostfile": "lines 'ADDRESS slots=N'", "point": "only points whose name holds this"},
)
@door
def bench_plan(c, sweep, hostfile="", port="9091", point=""):  # type: ignore[no-untyped-def]
    """Print every process of a sweep: host, role, environment, command."""
    from launch.hosts import pretend, read_hostfile, this_machine
    from launch.plan import describe, plan

    what = load_sweep(sweep)
    most = max(what.trials, key=lambda trial: trial.hosts)
    if hostfile:
        hosts = read_hostfile(Path(hostfile))
    elif most.hosts > 1 or most.device == "gpu":
        hosts = pretend(most.hosts, most.devices_per_host)
        print(f"# no --hostfile: {len(hosts)} made-up hosts of {most.devices_per_host} devices")
    else:
        hosts = (this_machine(),)
    chosen = [trial for trial in what.trials if point in trial.name]
    if not chosen:
        raise SpecError(f"--point: no point's name holds {point!r}")
    for trial in chosen:
        print(
            f"\n# {trial.name}: {trial.hosts} host(s), {trial.workers} worker(s), batch "
            f"{trial.batch_per_device} a device, {trial.worker_batch} a worker, "
            f"{trial.global_batch} in all"
        )
        print(describe(plan(trial, hosts, whole("--port", port))))


@task(
    help={
        "run": "name below results/runs, or a path; default: the sweep's name",
        "port": "the scheduler's; default: a free one",
        "engine": f"instead of the sweep's: {', '.join(ENGINES)}",
    },
)
@door
def bench_sweep(c, sweep, run="", port="", engine=""):  # type: ignore[no-untyped-def]
    """Measure what is not measured yet of a sweep, and report it."""
    measure(load_sweep(sweep, engine=engine or None), run, port)


@task(help={"data": "a .rec file, a folder of them, or files joined by ';'"})
@door
def bench_io(  # type: ignore[no-untyped-def]
    c, data, batch="32", nthreads="4", image_shape="3,224,224", windows="10"
):
    """Measure how fast the input pipeline reads, with nothing to feed."""
    shape = [whole("--image-shape", part) for part in image_shape.split(",")]
    trial = make(
        {
            "mode": "test-io",
            "data_train": data,
            "batch_per_device": whole("--batch", batch),
            "data_nthreads": whole("--nthreads", nthreads),
            "image_shape": shape,
            "windows": whole("--windows", windows),
            "device": "cpu",
        }
    )
    description = f"reading {data} in {nthreads} threads"
    what = Sweep(name="io", description=description, repeats=1, trials=(trial,), text="")
    measure(what, stamped("io"))


@task(help={"run": "name below results/runs, or a path; default: the newest"})
@door
def report_build(c, run=""):  # type: ignore[no-untyped-def]
    """Write a run's results.csv, report.md and figure, and print its table."""
    build_report(run_folder(run))


@task(help={"run": "name below results/runs, or a path; default: the newest"})
@door
def report_show(c, run=""):  # type: ignore[no-untyped-def]
    """Print a run's table."""
    from plots.table import show
    from results.run import load

    show(load(run_folder(run)))


@task(help={"run": "name below results/runs, or a path; default: a new one each time"})
@door
def smoke(c, run=""):  # type: ignore[no-untyped-def]
    """Train a tiny network here with and without servers, in under a minute; for CI."""
    measure(load_sweep("smoke"), run or stamped("smoke"))


@task
@door
def demo(c):  # type: ignore[no-untyped-def]
    """Go the whole way on this machine: photographs, shards, training, scaling, report."""
    data_sample.body(c, "data/sample")
    data_prepare.body(c, "data/sample")
    measure(load_sweep("demo"), "")


namespace = Collection(
    Collection("data", sample=data_sample, prepare=data_prepare),
    Collection("bench", plan=bench_plan, io=bench_io),
    Collection("report", build=report_build, show=report_show),
    smoke,
    demo,
)
namespace.collections["bench"].add_task(bench_sweep, "sweep", default=True)
