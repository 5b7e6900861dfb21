"""Tasks `results.*`: list, import, export, pack and remove runs; merge profiles."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from invoke.exceptions import Exit

from bench.errors import SpecError, error_line, parse_int, quoted
from im2rec_tools.options import REQUIRED, OptionHelp
from im2rec_tools.terminal import echo
from results.errors import StoreError
from results.exports import TARGETS
from results.run_folder import CATALOG, EXPORTS, REPORT
from tasks.cli import command, read_only_command, short_path, task
from tasks.report import RUN, RUN_REQUIRED, RUNS, archive_of, run_folder

if TYPE_CHECKING:  # slow imports wait until a task runs
    from results.record import Record

_RUN_OR_ZIP = OptionHelp("RUN", "Name below results/runs, or a path to a run's folder or .zip")
_JOB = "Job"
# Facts that most logs contain.
_LOGGED = "as logged"
_LOG = "Log"


@task(
    {
        "file": OptionHelp(
            "FILE", "A log, gzipped or not; a quoted pattern for several of one job: 'worker-*.log'"
        ),
        "also": OptionHelp("FILE", "Another log of the same job", empty="none"),
        "run": OptionHelp(
            "RUN",
            "Run to add the point to: name below results/runs, or a path",
            empty=REQUIRED,
        ),
        "description": OptionHelp("TEXT", "Description of the run for its report", empty="none"),
        "network": OptionHelp("NAME", "Network, such as resnet-50", empty=_LOGGED, group=_JOB),
        "devices": OptionHelp("N", "Devices of the job", empty=_LOGGED, group=_JOB),
        "hosts": OptionHelp("N", "Hosts of the job", empty="1", group=_JOB),
        "devices_per_host": OptionHelp(
            "N", "Devices of each host", empty="devices divided by hosts", group=_JOB
        ),
        "workers": OptionHelp(
            "N",
            "Processes that each print their own throughput",
            empty="as many as found",
            group=_JOB,
        ),
        "batch_per_device": OptionHelp(
            "N", "Images per step and device", empty=_LOGGED, group=_JOB
        ),
        "kvstore": OptionHelp(
            "NAME",
            "Gradient exchange: dist_sync, horovod, nccl, ...",
            empty=_LOGGED,
            group=_JOB,
        ),
        "dtype": OptionHelp(
            "TYPE", "Compute data type: float32, float16 or bfloat16", empty=_LOGGED, group=_JOB
        ),
        "data": OptionHelp("KIND", "Training images: real or synthetic", empty=_LOGGED, group=_JOB),
        "device": OptionHelp(
            "KIND", "Kind of devices: gpu, cpu or other", empty=_LOGGED, group=_JOB
        ),
        "format": OptionHelp(
            "FORMAT",
            "Format of the logs: auto, mxnet, tf-inception, horovod, tf-cnn, horovod-synthetic or "
            "mlperf",
            group=_LOG,
        ),
        "speeds_of": OptionHelp(
            "SCOPE",
            "What each printed throughput covers: workers (all of them), one-worker, one-device or "
            "job",
            empty="by the format",
            group=_LOG,
        ),
        "warmup": OptionHelp(
            "N",
            "Number of first values per worker to discard as warm-up",
            empty="by the format",
            group=_LOG,
        ),
    },
    name="import",
    iterable=["also"],
    example="'worker-*.log' --run theirs --network resnet-50 --devices 8",
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
    """Import a point from another tool's logs into a run.

    Options supply what the logs do not contain, such as the network.
    """
    from results.imports.point import LogDescription
    from results.imports.record import import_logs
    from results.imports.writer import add_to_run

    if not run:
        raise SpecError(
            error_line(
                "--run",
                expected="the name of the run to add the point to",
                got="none",
                fix="Give --run NAME",
            )
        )
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
    """Print the point added to a run.

    log_total  throughput that the log itself reports, in images/s
    """
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
        echo(f"  {first} of each worker {'is' if count == 1 else 'are'} discarded (warm-up)")
    for text in (*texts(discarded_notes(record)), *texts(record.notes)):
        echo(f"  {text}")
    echo(f"build the report: fab report.build --run {run}")


def files(name: str) -> list[Path]:
    """Return the files of a name or pattern by name; SpecError if there is none."""
    path = Path(name).expanduser()
    if path.is_dir():
        raise SpecError(
            error_line(name, expected="a log", got="a folder", fix=f"Give '{name}/*.log'")
        )
    if path.is_file():
        return [path]
    root, pattern = (Path(path.anchor), str(path.relative_to(path.anchor)))
    found = sorted(one for one in root.glob(pattern) if one.is_file()) if pattern != "." else []
    if not found:
        raise SpecError(error_line(name, expected="a file", got="none"))
    return found


def _count(option: str, text: str) -> int:
    return parse_int(option, text) if text else 0


@task(
    {
        "target": OptionHelp(
            "TARGET", f"One or more, separated by commas, or all: {', '.join(TARGETS)}"
        ),
        "run": RUN,
        "to": OptionHelp("DIR", "Folder to write to", empty="report/exports of the run"),
        "point": OptionHelp(
            "WORDS", "Only points whose names contain these words: 'resnet-152 x256'", empty="all"
        ),
        "speedup_baseline": OptionHelp(
            "POINT",
            "Also export speed-up and efficiency against this point: 'KVSTORE xN'",
            empty="none",
        ),
    },
    example="junit,prometheus --run monday",
    by_place=["run"],
)
@command
def results_export(  # type: ignore[no-untyped-def]
    c, target, run="", to="", point="", speedup_baseline=""
):
    """Export a run to MLflow, JUnit, Prometheus and others.

    Also exports to MLPerf's log format and TensorBoard, and writes a badge.
    """
    from results.exports.targets import export, load_exporter, target_names, with_points
    from results.run import load, with_baseline

    exporters = {name: load_exporter(name) for name in target_names(target)}
    wanted = with_baseline(load(run_folder(run)), speedup_baseline)
    if point:
        wanted = with_points(wanted, point)
    folder = Path(to).expanduser() if to else wanted.folder / REPORT / EXPORTS
    written = export(wanted, exporters, folder)
    for name in [name for name, paths in written.items() if not paths]:
        echo(f"{name}: nothing written: no training point has a result")
    for path in [path for paths in written.values() for path in paths]:
        echo(short_path(path))
    if not any(written.values()):
        raise StoreError(
            error_line(wanted.folder, expected="a training point with a result", got="none")
        )


@task({"in_": OptionHelp("DIR", "Also list the runs of this folder", empty="none")})
@read_only_command
def results_list(c, in_=""):  # type: ignore[no-untyped-def]
    """List runs, newest first.

    Prints points, hosts, networks and size of each.
    """
    from plots.tables.runs import show
    from results.integrity.catalog import list_runs

    index, keep = RUNS / CATALOG, not c.config.run.dry
    if RUNS.is_dir():
        show(list_runs(RUNS, index, keep=keep), "results/runs")
    elif not in_:
        raise StoreError(
            error_line(RUNS, expected="a run", got="none", fix="Run 'fab bench.sweep smoke'")
        )
    if in_:
        show(list_runs(Path(in_), index, keep=keep), in_)


@task({"run": _RUN_OR_ZIP})
@read_only_command
def results_show(c, run):  # type: ignore[no-untyped-def]
    """Describe a run: points, files, hosts, logs, digest."""
    from plots.figures.caption import hardware
    from plots.tables.runs import describe
    from results.integrity.catalog import run_entry
    from results.integrity.digest import load
    from results.reader import point_statuses, record_headers
    from results.run import read_environment
    from results.run_folder import is_run

    folder = run_folder(run)
    if not is_run(folder):
        raise StoreError(
            error_line(
                folder, expected="a run", got="none", fix="'fab results.list' lists the runs"
            )
        )
    environment = read_environment(folder)
    found = point_statuses(folder, record_headers(folder))
    try:
        built = load(folder)
        digest = built.digest if built else "none yet; run 'fab report.build'"
    except StoreError as error:
        digest = f"unknown: {error}"
    machine = hardware(environment)
    describe(folder, run_entry(folder), found, environment, machine=machine, digest=digest)


@task(
    {
        "runs": OptionHelp("RUNS", "Names below results/runs, or paths, separated by commas"),
        "yes": OptionHelp("", "Remove them; without it, print what would be removed"),
        "dry_run": OptionHelp("", "Print what --yes would remove and remove nothing"),
    }
)
@command
def results_rm(c, runs, yes=False, dry_run=False):  # type: ignore[no-untyped-def]
    """Remove runs with their logs and reports.

    Without --yes, prints them and exits with 2.
    """
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
            echo(f"would not remove {label}: a sweep (process {process}) is writing to it")
        else:
            echo(f"would remove {label}")
    if not (yes or dry_run):
        raise Exit("nothing removed. Add --yes to remove them", code=2)


@task({"run": RUN_REQUIRED, "to": OptionHelp("FILE", ".zip file", empty="RUN.zip beside the run")})
@command
def results_pack(c, run, to=""):  # type: ignore[no-untyped-def]
    """Pack a run with logs and report into one .zip file."""
    from im2rec_tools.files import format_size
    from results.integrity.archive import SUFFIX, pack

    folder = _run_path(run)
    target = Path(to) if to else folder.resolve().with_name(folder.resolve().name + SUFFIX)
    if target.suffix != SUFFIX:
        raise SpecError(
            error_line(
                "--to",
                expected=f"a name that ends in {SUFFIX}",
                got=quoted(to),
                fix=f"Give --to NAME{SUFFIX}",
            )
        )
    count = pack(folder, target)
    echo(f"{target}: {count} files, {format_size(target.stat().st_size)}")


@task(
    {
        "archive": OptionHelp("ARCHIVE", "A .zip file of results.pack, or the name of its run"),
        "run": replace(RUN, empty="the packed run's name"),
    },
    by_place=["run"],
)
@command
def results_unpack(c, archive, run=""):  # type: ignore[no-untyped-def]
    """Unpack a run's .zip file without its report.

    Keeps the predictions of report.predict. Unpacks below results/runs unless --run is a path.
    """
    from results.integrity.archive import SUFFIX, unpack

    named = archive if archive.endswith(SUFFIX) else f"{archive}{SUFFIX}"
    packed = Path(archive) if Path(archive).is_file() else archive_of(named)
    into, name = (_run_path(run).parent, _run_path(run).name) if run else (RUNS, "")
    folder = unpack(packed, into, name, report=False)
    echo(folder)
    echo(
        f"unpacked without its report, which is untrusted. Build it from the records: fab "
        f"report.build --run {shlex.quote(folder.name if folder.parent == RUNS else str(folder))}"
    )


def _run_path(name: str) -> Path:
    """Return the folder of a run by its name or path; it need not exist."""
    name = name.strip()
    if not name or name in {".", ".."} or name.endswith(".zip"):
        raise SpecError(
            error_line(
                "run",
                expected="the name or path of a run's folder",
                got=quoted(name),
                fix="List the runs with 'fab results.list'",
            )
        )
    return Path(name) if os.sep in name else RUNS / name


@task(
    {
        "profiles": OptionHelp("FILES", "Profiles of all ranks: a quoted pattern"),
        "to": OptionHelp("FILE", "Chrome trace to write"),
        "align": OptionHelp(
            "METHOD", "Zero of times: clock (one for all hosts) or start (first event of each rank)"
        ),
    },
    example="'rank*_w.json' --to merged.json",
)
@command
def results_trace(c, profiles, to="merged.json", align="clock"):  # type: ignore[no-untyped-def]
    """Merge the profiles of all ranks into one trace.

    Each rank is a process of it. Workers write profiles with --profile-worker-suffix.
    """
    from results.exports.trace import ALIGNMENTS, read, write

    chosen = next((one for one in ALIGNMENTS if one == align), None)
    if chosen is None:
        fix = "Give --align start if the hosts' clocks differ"
        raise SpecError(
            error_line("--align", expected=" or ".join(ALIGNMENTS), got=quoted(align), fix=fix)
        )
    found, target = files(profiles), Path(to).expanduser()
    if target.resolve() in {path.resolve() for path in found}:
        fix = "Give --to another name"
        raise SpecError(
            error_line("--to", expected="a new file", got="one of the profiles", fix=fix)
        )
    traces = read(found)
    write(target, traces, chosen)
    first = min(trace.start for trace in traces)
    for trace in traces:
        zero = trace.start if chosen == "start" else first
        begin, end = ((time - zero) / 1e3 for time in (trace.start, trace.end))
        echo(f"{trace.name}: {len(trace.events)} events from {begin:.1f} to {end:.1f} ms")
    echo(f"{target}: open it in Perfetto or at chrome://tracing")
