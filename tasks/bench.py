"""bench.*: what a sweep needs and what it measures."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench.engines.catalog import ENGINES
from bench.engines.faults import KINDS
from bench.errors import SpecError, parse_float, parse_int, quoted
from bench.settings.parts import DATA
from bench.settings.secrets import masked_word
from bench.sweep import MOST_REPEATS, Sweep, load_sweep, with_fault, within
from bench.trial import chosen, make
from im2rec_tools.terminal import echo
from tasks.cli import NO_HOST_OPTIONS, command, hosts_task, read_only_command, task
from tasks.report import (
    SPEEDUP_BASELINE,
    build_report,
    checked_baseline,
    new_folder,
    prices_of,
    timestamped_name,
)

if TYPE_CHECKING:  # what needs long to load is loaded when a task runs
    from launch.hosts import Host
    from launch.job.monitor import Deadlines
    from launch.sweep import ClusterSetup


_HELP = {
    "sweep": "name of a shipped sweep, or a file",
    "point": "only points whose name has these words: 'resnet-152 x32'",
    "servers_per_host": "server processes of a host; default: one beside each worker",
    "server_hosts": "how many of the hosts run servers alone",
    "precision": "measure a rate to so much of it (half its 95 % interval); 0: all windows",
    "budget": "seconds that the windows of a run may take in all; 0: any",
    "x": "NAME=VALUE for every process; NAME: its value here, which is not recorded",
}


def measure_here(what: Sweep, run: str) -> None:
    """Measures a sweep on this machine, one with a file as `fab bench.sweep NAME` does."""
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
) -> None:
    """Runs what is left of a sweep, shuffled unless it is to be in order, and reports it.

    `finish` is called between the last point and the report.
    """
    from launch.sweep import points, run_order, sweep
    from plots.screen import show_sweep
    from results.store import Store

    prices_of("")  # a mistake in it is told before hours of measuring
    wanted = points(what, where)
    store = Store(new_folder(run or what.name))
    try:
        left = {name for _, name in wanted} - store.done()
        order = wanted if in_order else run_order(wanted, store.folder.resolve().name)
        show_sweep(sweep(what, wanted, where, store, order))
    finally:
        store.close()
    if not left:
        echo("all of it is measured already; with another --run it is measured again")
    if finish is not None:
        finish()
    build_report(store.folder, baseline=baseline)


@hosts_task(
    decorator=read_only_command,
    help={**_HELP, "port": "the scheduler's"},
    iterable=["x"],
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
    """Print every process of a sweep: host, role, environment, command."""
    from launch.job.plan import describe, plan
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
            f"{trial.device_batch} a device, {trial.worker_batch} a worker, "
            f"{trial.global_batch} in all",
        )
        echo(*describe(plan(trial, hosts, parse_int("--port", port, most=65535))))


@hosts_task(
    help={
        **_HELP,
        "run": "name below results/runs, or a path; default: the sweep's name",
        "port": "the scheduler's; default: a free one",
        "engine": f"instead of the sweep's: {', '.join(ENGINES)}",
        "fault": f"POINT:ROLE[-INDEX]:KIND[@WINDOW] to rehearse; kinds: {', '.join(KINDS)}",
        "rendezvous": "seconds until all processes of a job have met",
        "first_window": "seconds from the rendezvous to the end of the first window",
        "progress": "seconds between windows (or 10 times the slowest, where that is more)",
        "repeats": "fresh jobs of each point; default: as the sweep says",
        "scheduler": "where it runs: first (host) or master",
        "log_budget": "MiB of what each process prints that are kept, the last of it",
        "in_order": "measure in the file's order, not in one of chance within each repeat",
        "speedup_baseline": SPEEDUP_BASELINE,
        "auto_batch": "the largest batch that fits (--auto-batch=N: up to N), for each network",
    },
    iterable=["fault", "x"],
    optional=["auto_batch"],
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
    """Measure what is not measured yet of a sweep, here or on the hosts listed, and report it."""
    from launch.auto_batch import check_fitting, fitting
    from launch.setup import job_setup, listed_hosts

    baseline = checked_baseline(speedup_baseline)
    hosts = listed_hosts(host_options, only_named=engine == "fake")
    fields = option_fields(x, servers_per_host, server_hosts, precision, budget)
    fields |= {"batch_per_device": 1} if auto_batch else {}
    what = sweep_for_hosts(hosts, sweep, fields, engine)
    what = replace(what, command=("fab", "bench.sweep", *map(masked_word, host_options.words)))
    if auto_batch:
        check_fitting(what, hosts)
    what = _selected(what, point, repeats, fault)
    deadlines = _deadlines(rendezvous, first_window, progress)
    listening = parse_int("--port", port, most=65535) if port else None
    with job_setup(hosts, host_options, what, scheduler) as where:
        kept = parse_int("--log-budget", log_budget) << 20
        patient = replace(where, port=listening, deadlines=deadlines, log_budget=kept)
        if auto_batch:
            what = fitting(what, patient, new_folder(run or what.name), auto_batch)
        measure(what, run, patient, in_order, baseline)


def _deadlines(rendezvous: str, first_window: str, progress: str) -> Deadlines:
    from launch.job.monitor import Deadlines

    return Deadlines(
        rendezvous=parse_int("--rendezvous", rendezvous),
        first_window=parse_int("--first-window", first_window),
        progress=parse_int("--progress", progress),
    )


def _selected(what: Sweep, point: str, repeats: str, faults: list[str] | None) -> Sweep:
    """The sweep with the points, repeats and faults that options name."""
    if point:
        what = replace(what, trials=tuple(chosen(what.trials, point)))
    if repeats:
        what = replace(what, repeats=parse_int("--repeats", repeats, most=MOST_REPEATS))
    if not faults and "--fault" in sys.argv:
        # fab takes an option that may be repeated, and has no value, for none at all
        raise SpecError("--fault: expected POINT:ROLE:KIND, got nothing")
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
    """What options say for every point of a sweep."""
    fields: dict[str, Any] = {"env": list(settings)} if settings else {}
    for option, text in (("servers_per_host", servers_per_host), ("server_hosts", server_hosts)):
        if text:
            fields[option] = parse_int(f"--{option.replace('_', '-')}", text)
    for option, field, text in (
        ("--precision", "precision", precision),
        ("--budget", "budget_seconds", budget),
    ):
        if text:
            fields[field] = parse_float(option, text)
    if fields.get("precision", 0) >= 1:
        raise SpecError(
            f"--precision: expected a part of the rate, below 1, got {quoted(precision)}"
        )
    return fields


def sweep_for_hosts(
    hosts: Sequence[Host], sweep: str, fields: dict[str, Any], engine: str
) -> Sweep:
    """The sweep as it is, or with the device counts of these hosts."""
    if not hosts:
        return load_sweep(sweep, engine=engine or None, fields=fields)
    if not hosts[0].cpus:
        raise SpecError(
            "how many devices has a host? Add slots=N to the lines of the hosts file, or give "
            "--devices-per-node N"
        )
    workers = len(hosts) - fields.get("server_hosts", 0)
    if workers < 1:
        asked = fields["server_hosts"]
        raise SpecError(f"--server-hosts {asked}: {len(hosts)} hosts leave none for workers")
    fields["devices_per_host"] = hosts[0].cpus
    return load_sweep(sweep, engine=engine or None, fields=fields, hosts=workers)


@task(
    help={
        "data": DATA,
        "nthreads": "decoding threads, a row each: 1,2,4; default: 1, 2, 4 ... all processors",
        "cold": "read from the disk: the files are dropped from memory before each epoch",
        "options": "of training, such as '--random-crop=1 --random-mirror=1'",
    }
)
@command
def bench_io(  # type: ignore[no-untyped-def]
    c, data, batch="32", nthreads="", image_shape="3,224,224", windows="10", cold=False, options=""
):
    """Measure how fast the input pipeline reads, with nothing to feed."""
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
    description = f"reading {data} in {' / '.join(map(str, counts))} threads"
    what = Sweep(name="io", description=description, repeats=1, trials=trials, text="")
    measure_here(what, timestamped_name("io"))
