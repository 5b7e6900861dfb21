"""results.*: the runs there are, and what becomes of them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from invoke.exceptions import Exit

from bench.errors import SpecError, parse_int, quoted
from im2rec_tools.terminal import echo
from results.errors import StoreError
from results.exports.targets import TARGETS, export, load_exporter, target_names, with_points
from results.run_folder import CATALOG, EXPORTS, REPORT
from tasks.cli import command, read_only_command, short_path, task
from tasks.report import RUNS, archive_of, run_folder

if TYPE_CHECKING:  # what needs long to load is loaded when a task runs
    from results.record import Record

_RUN = "name below results/runs, or a path to its folder or .zip"


@task(
    name="import",
    iterable=["also"],
    help={
        "file": "a log, gzipped or not; several of one job by a pattern in quotes: 'worker-*.log'",
        "also": "another log of the same job; more than once for several",
        "run": "name below results/runs, or a path, where the point is added",
        "network": "resnet-50 and the like, or any other name",
        "devices": "of the whole job",
        "hosts": "of the whole job; default: 1",
        "devices_per_host": "of a full host; default: the devices shared among the hosts",
        "workers": "processes that each print their own speed; default: as many as are found",
        "batch_per_device": "images a step on one device",
        "kvstore": "how gradients went: dist_sync, horovod, nccl or any other name",
        "dtype": "float32, float16 or bfloat16",
        "data": "real or synthetic images",
        "device": "gpu, cpu or other",
        "speeds_of": "workers, one-worker, one-device or job; default: by the format",
        "warmup": "speeds at the front of each worker that do not count; default: by the format",
        "format": "auto, mxnet, tf-inception, horovod, tf-cnn, horovod-synthetic or mlperf",
        "description": "a line about the run, for its report",
    },
)
@command
def results_import(  # type: ignore[no-untyped-def]
    c,
    file,
    also=None,
    run="",
    network="",
    devices="",
    hosts="",
    devices_per_host="",
    workers="",
    batch_per_device="",
    kvstore="",
    dtype="",
    data="",
    device="",
    speeds_of="",
    warmup="",
    format="auto",
    description="",
):
    """Add a point that another tool measured to a run, from its logs (docs/import.md)."""
    from results.imports.point import LogDescription
    from results.imports.record import import_logs
    from results.imports.writer import add_to_run

    if not run:
        raise SpecError("--run: expected a name for the run that the point is added to")
    asked = LogDescription(
        network=network.strip(),
        devices=_count("--devices", devices),
        hosts=_count("--hosts", hosts),
        devices_per_host=_count("--devices-per-host", devices_per_host),
        workers=_count("--workers", workers),
        batch_per_device=_count("--batch-per-device", batch_per_device),
        kvstore=kvstore.strip(),
        dtype=dtype,
        mode=data,
        device=device,
        speeds_of=speeds_of,
        warmup=parse_int("--warmup", warmup, least=0) if warmup else None,
    )
    new = import_logs(
        [*files(file), *(one for name in also or () for one in files(name))], asked, format
    )
    _show_import(add_to_run(run_folder(run), new, description), new.total, run)


def _show_import(record: Record, log_total: float | None, run: str) -> None:
    """Prints what was added to a run; `log_total` is the throughput that the log itself gives."""
    from bench.notes import texts
    from plots.format import significant
    from results.imports.windows import discarded_notes
    from results.rates import rate_of

    repeat = record.identity.repeat + 1
    echo(f"{record.source}: {record.identity.name}, repeat {repeat} of this point in {run}")
    total = f"; the log's own total: {significant(log_total, 4)} images/s" if log_total else ""
    echo(f"{significant(rate_of(record), 4)} images/s{total}")
    if count := record.trial.measuring.warmup_windows:
        first = "the first window" if count == 1 else f"the first {count} windows"
        echo(f"  {first} of each worker {'does' if count == 1 else 'do'} not count (warm-up)")
    for text in (*texts(discarded_notes(record)), *texts(record.notes)):
        echo(f"  {text}")
    echo(f"'fab report.build --run {run}' reports the run")


def files(name: str) -> list[Path]:
    """The files of a name or pattern, in the order of their names; SpecError where none is."""
    path = Path(name).expanduser()
    if path.is_dir():
        raise SpecError(f"{name}: expected a log, got a folder; '{name}/*.log' names its files")
    if path.is_file():
        return [path]
    root, pattern = (Path(path.anchor), str(path.relative_to(path.anchor)))
    found = sorted(one for one in root.glob(pattern) if one.is_file()) if pattern != "." else []
    if not found:
        raise SpecError(f"{name}: no such file")
    return found


def _count(option: str, text: str) -> int:
    return parse_int(option, text) if text else 0


@task(
    help={
        "target": f"{', '.join(TARGETS)}; several with commas between, or all",
        "run": "name below results/runs, or a path; default: the newest",
        "to": "folder for what is written; default: report/exports of the run",
        "point": "only the points whose name has these words: 'resnet-152 x256'",
        "speedup_baseline": "'KVSTORE xN': also speed-up and efficiency against this point",
    },
)
@command
def results_export(  # type: ignore[no-untyped-def]
    c, target, run="", to="", point="", speedup_baseline=""
):
    """Write a run for MLPerf's tools, TensorBoard, MLflow, JUnit, Prometheus or as a badge."""
    from results.run import load, with_baseline

    exporters = {name: load_exporter(name) for name in target_names(target)}
    wanted = with_baseline(load(run_folder(run)), speedup_baseline)
    if point:
        wanted = with_points(wanted, point)
    folder = Path(to).expanduser() if to else wanted.folder / REPORT / EXPORTS
    written = export(wanted, exporters, folder)
    for name in [name for name, paths in written.items() if not paths]:
        echo(f"{name}: nothing to write, no training point has a number")
    for path in [path for paths in written.values() for path in paths]:
        echo(short_path(path))
    if not any(written.values()):
        raise StoreError(f"{wanted.folder}: no training point has a number; nothing was exported")


@task(help={"in": "a folder of runs besides results/runs"})
@read_only_command
def results_list(c, in_=""):  # type: ignore[no-untyped-def]
    """List the runs there are, newest first: points, hosts, networks, size."""
    from plots.tables.runs import show
    from results.integrity.catalog import list_runs

    index, keep = RUNS / CATALOG, not c.config.run.dry
    if RUNS.is_dir():
        show(list_runs(RUNS, index, keep=keep), "results/runs")
    elif not in_:
        raise StoreError(f"{RUNS}: no run yet; 'fab bench.sweep' makes one")
    if in_:
        show(list_runs(Path(in_), index, keep=keep), in_)


@task(help={"run": _RUN})
@read_only_command
def results_show(c, run):  # type: ignore[no-untyped-def]
    """Say what a run is and holds: points, files, hosts and how they differ, logs, digest."""
    from plots.figures.caption import hardware
    from plots.tables.runs import describe
    from results.integrity.catalog import run_entry
    from results.integrity.digest import load
    from results.reader import point_statuses, record_headers
    from results.run import read_environment
    from results.run_folder import is_run

    folder = run_folder(run)
    if not is_run(folder):
        raise StoreError(f"{folder}: no such run; 'fab results.list' names those there are")
    environment = read_environment(folder)
    found = point_statuses(folder, record_headers(folder))
    try:
        built = load(folder)
        digest = built.digest if built else "none yet; 'fab report.build' makes one"
    except StoreError as error:
        digest = f"unknown: {error}"
    machine = hardware(environment)
    describe(folder, run_entry(folder), found, environment, machine=machine, digest=digest)


@task(
    help={
        "runs": "names below results/runs, or paths; several with commas between them",
        "yes": "remove them; without it, print only what would be removed",
        "dry_run": "print what --yes would remove, and remove nothing",
    }
)
@command
def results_rm(c, runs, yes=False, dry_run=False):  # type: ignore[no-untyped-def]
    """Remove runs with their logs and reports."""
    from im2rec_tools.files import format_size
    from results.integrity.catalog import size_of
    from results.store import check_removable, remove, writing_process

    folders = [_run_path(name) for name in dict.fromkeys(runs.split(",")) if name.strip()]
    for folder in folders:
        check_removable(folder)
    for folder in folders:
        label = f"{folder} ({format_size(size_of(folder))})"
        if yes and not dry_run:
            remove(folder)
            echo(f"removed {label}")
        elif process := writing_process(folder):
            echo(f"would not remove {label}: a sweep (process {process}) is writing there")
        else:
            echo(f"would remove {label}")
    if not (yes or dry_run):
        raise Exit("nothing is removed yet; --yes removes them", code=2)


@task(help={"run": "name below results/runs, or a path", "to": "default: NAME.zip beside the run"})
@command
def results_pack(c, run, to=""):  # type: ignore[no-untyped-def]
    """Pack a run with its logs and report into one .zip, to be moved and reported elsewhere."""
    from im2rec_tools.files import format_size
    from results.integrity.archive import SUFFIX, pack

    folder = _run_path(run)
    target = Path(to) if to else folder.resolve().with_name(folder.resolve().name + SUFFIX)
    if target.suffix != SUFFIX:
        raise SpecError(f"--to: expected a name that ends in {SUFFIX}, got {quoted(to)}")
    count = pack(folder, target)
    echo(f"{target}: {count} files, {format_size(target.stat().st_size)}")


@task(
    help={
        "archive": "a .zip that results.pack made: its path, or the name of its run",
        "run": "name or path of the folder it becomes; default: its own name",
    }
)
@command
def results_unpack(c, archive, run=""):  # type: ignore[no-untyped-def]
    """Unpack a run without its report, below results/runs unless --run is a path."""
    from results.integrity.archive import SUFFIX, unpack

    named = archive if archive.endswith(SUFFIX) else f"{archive}{SUFFIX}"
    packed = Path(archive) if Path(archive).is_file() else archive_of(named)
    into, name = (_run_path(run).parent, _run_path(run).name) if run else (RUNS, "")
    folder = unpack(packed, into, name, without=REPORT)
    echo(folder)
    echo(
        f"without {REPORT}/, which anybody may have written: 'fab report.build --run "
        f"{shlex.quote(folder.name if folder.parent == RUNS else str(folder))}' builds it from "
        f"the records"
    )


def _run_path(name: str) -> Path:
    """The folder of a run by its name or path; it need not be there."""
    name = name.strip()
    if not name or name in {".", ".."} or name.endswith(".zip"):
        raise SpecError(f"expected the name or path of a run's folder, got {quoted(name)}")
    return Path(name) if os.sep in name else RUNS / name
