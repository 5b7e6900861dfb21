"""Tasks `bench.*`: plan and run sweeps, benchmark the input pipeline."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from invoke.exceptions import Exit

from bench.engines.faults import KINDS
from bench.errors import SpecError, error_line, parse_float, parse_int, quoted
from bench.settings.parts import DATA
from bench.settings.secrets import masked_word
from bench.sweep import MOST_REPEATS, Sweep, load_sweep, with_fault, within
from bench.trial import chosen, make
from im2rec_tools.options import OptionHelp
from im2rec_tools.terminal import echo
from tasks.cli import (
    NO_HOST_OPTIONS,
    InterruptedReport,
    command,
    hosts_task,
    read_only_command,
    task,
)
from tasks.report import (
    RUN,
    SPEEDUP_BASELINE,
    build_report,
    checked_baseline,
    new_folder,
    prices_of,
    run_name,
    timestamped_name,
)

if TYPE_CHECKING:  # slow imports wait until a task runs
    from pathlib import Path

    from bench.trial import Trial
    from launch.hosts import Host
    from launch.job.monitor import Deadlines
    from launch.sweep import ClusterSetup, PlannedRun
    from results.record import Identity


ENGINE = OptionHelp(
    "ENGINE",
    "Engine: mxnet, or simulated (scripted window times; also called fake)",
    empty="the sweep's",
    group="Simulation",
)
_SIMULATED = "simulated"
_RUN_GROUP = "Job"
_PLAN_OPTIONS = {
    "sweep": OptionHelp("SWEEP", "Name of a shipped sweep, or a .toml file"),
    "point": OptionHelp(
        "WORDS", "Only points whose names contain these words: 'resnet-152 x32'", empty="all"
    ),
    "precision": OptionHelp(
        "FRACTION",
        "Stop a point when its 95 % CI is within ± this fraction of its throughput (0.02: ±2 %); "
        "0 runs every window",
        empty="the sweep's, else 0.02",
    ),
    "budget": OptionHelp(
        "SECONDS",
        "Stop a point when its windows after warm-up have taken this long; 0 sets no limit",
        empty="the sweep's, else 300 s",
    ),
    "servers_per_host": OptionHelp(
        "N", "Server processes per host", empty="the sweep's, else one per worker", group=_RUN_GROUP
    ),
    "server_hosts": OptionHelp(
        "N", "Number of hosts that run servers only", empty="the sweep's, else 0", group=_RUN_GROUP
    ),
    "x": OptionHelp(
        "NAME[=VALUE]",
        "Set an environment variable of every process; NAME alone passes its value on this "
        "machine, which is not recorded",
        empty="none",
        group=_RUN_GROUP,
    ),
}


def engine_name(text: str) -> str:
    """Return the stored name of an engine: 'simulated' is 'fake'."""
    return "fake" if text == _SIMULATED else text


def measure_here(what: Sweep, run: str) -> None:
    """Run a sweep on this machine, as `fab bench.sweep NAME` does."""
    from launch.setup import local_setup

    command = ("fab", "bench.sweep", what.name) if what.text else ()
    measure(replace(what, command=command), run, local_setup(what))


def measure(
    what: Sweep,
    run: str,
    where: ClusterSetup,
    in_order: bool = False,
    baseline: str = "",
    finish: Callable[[], None] | None = None,
    trials: tuple[Trial, ...] = (),
) -> None:
    """Run the remaining points of a sweep in random order and build the report.

    in_order  run them in file order instead
    finish    called between the last point and the report
    trials    all points of the sweep, if `what` has some of them only: the report keeps those
              that it had
    """
    from launch.sweep import points, run_order, sweep
    from plots.failed_repeats import failure_lines
    from plots.screen import show_sweep
    from results.store import Store

    prices_of("")  # report a mistake in it before hours of measuring
    wanted = points(what, where)
    store = Store(new_folder(run or what.name))
    try:
        left = {name for _, name in wanted} - store.done()
        order = wanted if in_order else run_order(wanted, store.folder.resolve().name)
        reported = _with_earlier(wanted, replace(what, trials=trials), where, store.folder)
        failed = show_sweep(sweep(what, reported, where, store, order))
    finally:
        store.close()
    if not left:
        echo("Finished points are not rerun; use a new --run NAME to measure again.")
    if finish is not None:
        finish()
    name = run_name(store.folder)
    lines = list(failure_lines(failed, name, what.repeats))
    try:
        build_report(store.folder, baseline=baseline)
        echo(*lines, err=True)
    except KeyboardInterrupt:
        words = ["--run", name, *(["--speedup-baseline", baseline] if baseline else [])]
        raise InterruptedReport(
            "interrupted while writing the report; all repeats are kept. "
            f"Complete it with: fab report.build {shlex.join(words)}"
        ) from None
    except Exit as end:
        if not lines:
            raise
        echo(*filter(None, [end.message]), *lines, err=True)  # the failures end the output
        raise Exit(code=end.code) from end


def _with_earlier(
    wanted: list[PlannedRun], whole: Sweep, where: ClusterSetup, folder: Path
) -> list[PlannedRun]:
    """Return these repeats and, of the sweep's other points, those in the report."""
    from launch.remote.errors import LaunchError
    from launch.sweep import points
    from results.errors import StoreError
    from results.reader import asked_identities

    chosen = {trial.name for trial, _ in wanted}
    earlier: set[Identity] = set()
    with suppress(StoreError):  # a damaged list is replaced
        earlier = {name for name in asked_identities(folder) if name.name not in chosen}
    keys = {name.key for name in earlier}
    trials = tuple(one for one in whole.trials if one.key in keys)
    if not trials:
        return wanted
    repeats = max(name.repeat for name in earlier) + 1
    found = list(wanted)
    for trial in trials:
        with suppress(SpecError, LaunchError):  # other hosts have run it
            others = points(replace(whole, trials=(trial,), repeats=repeats), where)
            found += [run for run in others if run[1] in earlier]
    places = {trial.name: place for place, trial in enumerate(whole.trials)}
    return sorted(found, key=lambda run: (run[1].repeat, places[run[0].name]))


@hosts_task(
    decorator=read_only_command,
    options={
        **_PLAN_OPTIONS,
        "port": OptionHelp("PORT", "Port of the scheduler", group=_RUN_GROUP),
    },
    iterable=["x"],
    example="smoke --hostfile hosts",
)
def bench_plan(  # type: ignore[no-untyped-def]
    c,
    sweep,
    x=None,
    host_options=NO_HOST_OPTIONS,
    port="9091",
    point="",
    servers_per_host="",
    server_hosts="",
    precision="",
    budget="",
):
    """Print every process of a sweep without starting any.

    Prints the host, role, environment and command of each process, for every point.
    """
    from launch.job.plan import describe, oversubscription, plan
    from launch.setup import listed_hosts, planned_hosts

    hosts = listed_hosts(host_options)
    fields = option_fields(x, servers_per_host, server_hosts, precision, budget)
    what = sweep_for_hosts(hosts, sweep, fields, "")
    hosts, note = planned_hosts(hosts, what)
    echo(*note)
    for trial in chosen(what.trials, point):
        echo(
            "",
            f"# {trial.name}: {trial.hosts} host(s), {trial.workers} worker(s), batch "
            f"{trial.device_batch} per device, {trial.worker_batch} per worker, "
            f"{trial.global_batch} in total",
        )
        processes = plan(trial, hosts, parse_int("--port", port, most=65535))
        echo(*oversubscription(trial, hosts), *describe(processes))


@hosts_task(
    options={
        **_PLAN_OPTIONS,
        "in_order": OptionHelp(
            "",
            "Run points in file order instead of randomizing the order within each repeat",
        ),
        "repeats": OptionHelp("N", "Repeats of each point, each a fresh job", empty="the sweep's"),
        "auto_batch": OptionHelp(
            "N",
            "Use the largest batch per device that fits each network, at most N if given",
            empty="off",
        ),
        "run": replace(RUN, empty="the sweep's name", group="Results"),
        "speedup_baseline": replace(SPEEDUP_BASELINE, group="Results"),
        "log_budget": OptionHelp(
            "MIB",
            "Keep the last part of each process's output, up to this size",
            unit="MiB",
            group="Results",
        ),
        "scheduler": OptionHelp(
            "PLACE",
            "Where the scheduler runs: first (on the first host) or controller (on this machine)",
            group=_RUN_GROUP,
        ),
        "port": OptionHelp("PORT", "Port of the scheduler", empty="a free port", group=_RUN_GROUP),
        "rendezvous": OptionHelp(
            "SECONDS",
            "Fail if the processes of a job have not all connected after this time",
            unit="s",
            group="Deadlines",
        ),
        "first_window": OptionHelp(
            "SECONDS",
            "Fail if the first window has not ended this long after the rendezvous",
            unit="s",
            group="Deadlines",
        ),
        "progress": OptionHelp(
            "SECONDS",
            "Fail if a job makes no progress for this long, or for 10 times its slowest window "
            "if that is longer",
            unit="s",
            group="Deadlines",
        ),
        "engine": ENGINE,
        "fault": OptionHelp(
            "FAULT",
            "Inject a fault into a simulated point: POINT:ROLE[-INDEX]:KIND[@WINDOW], such as "
            "x2:worker-1:kill@3; kinds (see docs/how-to/rehearse-failures.md): " + ", ".join(KINDS),
            empty="none",
            group="Simulation",
        ),
    },
    iterable=["fault", "x"],
    optional=["auto_batch"],
    example="mine.toml --repeats 3 --run monday",
)
def bench_sweep(  # type: ignore[no-untyped-def]
    c,
    sweep,
    fault=None,
    x=None,
    host_options=NO_HOST_OPTIONS,
    run="",
    port="",
    point="",
    engine="",
    rendezvous="120",
    first_window="600",
    progress="60",
    servers_per_host="",
    server_hosts="",
    precision="",
    budget="",
    repeats="",
    scheduler="first",
    log_budget="16",
    in_order=False,
    speedup_baseline="",
    auto_batch="",
):
    """Run a sweep's remaining points and build the report.

    Runs on this machine, or on a cluster if hosts are given. Finished points are not rerun.
    Exits with 3 if a host fails its checks, 5 if a point has no result, 6 if a point reached no
    steady state.
    """
    from launch.auto_batch import check_fitting, fitting
    from launch.setup import job_setup, listed_hosts

    baseline = checked_baseline(speedup_baseline)
    engine = engine_name(engine)
    hosts = listed_hosts(host_options, only_named=engine == "fake")
    fields = option_fields(x, servers_per_host, server_hosts, precision, budget)
    fields |= {"batch_per_device": 1} if auto_batch else {}
    what = sweep_for_hosts(hosts, sweep, fields, engine)
    what = replace(what, command=("fab", "bench.sweep", *map(masked_word, host_options.words)))
    if auto_batch:
        check_fitting(what, hosts)
    every = what.trials
    what = _selected(what, point, repeats, fault)
    deadlines = _deadlines(rendezvous, first_window, progress)
    listening = parse_int("--port", port, most=65535) if port else None
    with job_setup(hosts, host_options, what, scheduler) as where:
        kept = parse_int("--log-budget", log_budget) << 20
        patient = replace(where, port=listening, deadlines=deadlines, log_budget=kept)
        if auto_batch:
            what = fitting(what, patient, new_folder(run or what.name), auto_batch)
        measure(what, run, patient, in_order, baseline, trials=every if point else ())


def _deadlines(rendezvous: str, first_window: str, progress: str) -> Deadlines:
    from launch.job.monitor import Deadlines

    return Deadlines(
        rendezvous=parse_int("--rendezvous", rendezvous),
        first_window=parse_int("--first-window", first_window),
        progress=parse_int("--progress", progress),
    )


def _selected(what: Sweep, point: str, repeats: str, faults: list[str] | None) -> Sweep:
    """Return the sweep with the points, repeats and faults that the options select."""
    if point:
        what = replace(what, trials=tuple(chosen(what.trials, point)))
    if repeats:
        what = replace(what, repeats=parse_int("--repeats", repeats, most=MOST_REPEATS))
    if not faults and "--fault" in sys.argv:
        # Invoke ignores a repeatable option that has no value.
        raise SpecError(error_line("--fault", expected="POINT:ROLE:KIND", got="none"))
    for text in faults or ():
        what = replace(what, trials=with_fault(what.trials, text))
    return what


def option_fields(
    settings: list[str] | None,
    servers_per_host: str,
    server_hosts: str,
    precision: str,
    budget: str,
) -> dict[str, Any]:
    """Return the fields that options set for every point of a sweep."""
    for name in (one.partition("=")[0] for one in settings or ()):
        if not (name.isascii() and name.isidentifier()):
            fix = "Use letters, digits and _, and begin with no digit"
            raise SpecError(error_line("-x", expected="a variable name", got=quoted(name), fix=fix))
    fields: dict[str, Any] = {"env": list(settings)} if settings else {}
    for option, text in (("servers_per_host", servers_per_host), ("server_hosts", server_hosts)):
        if text:
            fields[option] = parse_int(f"--{option.replace('_', '-')}", text)
    if precision:
        fields["precision"] = parse_float(
            "--precision", precision, "Give a fraction: 0.02 for ±2 %"
        )
    if budget:
        fields["budget_seconds"] = parse_float("--budget", budget)
    if fields.get("precision", 0) >= 1:
        raise SpecError(
            error_line(
                "--precision",
                expected="a fraction of the throughput, below 1",
                got=quoted(precision),
            )
        )
    return fields


def sweep_for_hosts(
    hosts: Sequence[Host], sweep: str, fields: dict[str, Any], engine: str
) -> Sweep:
    """Load a sweep; with hosts, with their device counts."""
    if not hosts:
        return load_sweep(sweep, engine=engine or None, fields=fields)
    if not hosts[0].cpus:
        raise SpecError(
            error_line(
                "hosts",
                expected="a number of devices per host",
                got="none",
                fix="Add slots=N to each line of the hosts file, or use --devices-per-node N",
            )
        )
    workers = len(hosts) - fields.get("server_hosts", 0)
    if workers < 1:
        asked = fields["server_hosts"]
        raise SpecError(
            error_line(
                "--server-hosts",
                expected=f"fewer than the {len(hosts)} hosts",
                got=f"{asked}, which leaves none for workers",
            )
        )
    fields["devices_per_host"] = hosts[0].cpus
    return load_sweep(sweep, engine=engine or None, fields=fields, hosts=workers)


@task(
    {
        "data": OptionHelp("DATA", f"Shards: {DATA}"),
        "batch": OptionHelp("N", "Images per batch"),
        "nthreads": OptionHelp(
            "LIST",
            "Numbers of decoding threads, one point each: 1,2,4",
            empty="1, 2, 4 ... all cores",
        ),
        "image_shape": OptionHelp("SHAPE", "Channels, height and width"),
        "windows": OptionHelp("N", "Windows after warm-up"),
        "cold": OptionHelp("", "Read from the disk; drop the files from memory before each epoch"),
        "options": OptionHelp(
            "OPTIONS",
            "More options of the image reader: '--random-crop=1 --random-mirror=1'",
            empty="none",
        ),
    },
    example="data/sample_rec/train --nthreads 1,2,4",
)
@command
def bench_io(  # type: ignore[no-untyped-def]
    c, data, batch="32", nthreads="", image_shape="3,224,224", windows="10", cold=False, options=""
):
    """Benchmark the input pipeline without training.

    Reports images/s for each number of decoding threads. Exits with 5 if a point has no result,
    6 if a point reached no steady state.
    """
    fields = {
        "mode": "test-io",
        "data_train": data,
        "batch_per_device": parse_int("--batch", batch),
        "image_shape": [parse_int("--image-shape", part) for part in image_shape.split(",")],
        "windows": parse_int("--windows", windows),
        "device": "cpu",
        "cold": cold,
        "options": options.split(),
    }
    counts = [parse_int("--nthreads", part) for part in nthreads.split(",")] if nthreads else None
    counts = list(dict.fromkeys(counts or within(len(os.sched_getaffinity(0)))))
    trials = tuple(make(fields | {"data_nthreads": count}) for count in counts)
    description = f"reading {data} with {' / '.join(map(str, counts))} threads"
    what = Sweep(name="io", description=description, repeats=1, trials=trials, text="")
    measure_here(what, timestamped_name("io"))
