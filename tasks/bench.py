"""Tasks `bench.sweep`, `bench.sbatch` and `bench.io`: sweeps and input pipeline."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from invoke.exceptions import Exit

from bench.data import DATA
from bench.errors import SpecError, error_line, parse_float, parse_int, quoted
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
from tasks.plan import (
    JOB_GROUP,
    LOG_LEVEL,
    PLAN_OPTIONS,
    again_class,
    engine_name,
    is_scripted,
    nothing_again,
    option_fields,
    plan_line,
    selected,
    set_log_level,
    sweep_for_hosts,
    sweep_forecast,
)
from tasks.report import (
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

    from bench.sweep import Sweep
    from bench.trial import Trial
    from launch.job.monitor import Deadlines
    from launch.sweep import ClusterSetup, PlannedRun
    from results.record import Identity
    from results.run import Again


def measure_here(what: Sweep, run: str) -> None:
    """Run a sweep on this machine, as `fab bench.sweep NAME` does."""
    from launch.setup import local_setup

    set_log_level("")
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
    again: Again | None = None,
    wait_seconds: float = 0.0,
) -> None:
    """Run the remaining points of a sweep in random order and build the report.

    in_order  run them in file order instead
    finish    called between the last point and the report
    trials    all points of the sweep, if `what` has some of them only: the report keeps those
              that it had
    again     measure only the finished or failed repeats of this class, once more
    wait_seconds  longest wait for other programs on the hosts
    """
    from launch.sweep import points, run_order, sweep
    from plots.failed_repeats import failure_lines
    from plots.screen import show_sweep
    from results.store import Store

    prices_of("")  # report a mistake in it before hours of measuring
    wanted = points(what, where)
    folder = new_folder(run or what.name)
    redone = _repeats_again(folder, wanted, again) if again else None
    if redone == set():
        build_report(folder, baseline=baseline)
        return
    store = Store(folder)
    store.measure_again(redone or ())
    try:
        left = {name for _, name in wanted} - store.done()
        order = wanted if in_order else run_order(wanted, store.folder.resolve().name)
        if redone:
            left, order = redone, [one for one in order if one[1] in redone]
        reported = _with_earlier(wanted, replace(what, trials=trials), where, store.folder)
        measured = [name.key for _, name in wanted if name not in left]
        ahead = sweep_forecast(what, measured, where.hosts, store.folder)
        echo(plan_line(ahead, where.hosts), err=True)
        if left:
            report_load(what, where, wait_seconds)
        expected = {one.trial.key: one.seconds for one in ahead if not one.assumed}
        informed = replace(where, expected=expected)
        failed = show_sweep(sweep(what, reported, informed, store, order))
    finally:
        store.close()
    if not left:
        echo(
            "Finished points are not rerun; use --again failed, unstable or doubtful to measure "
            "such repeats again, or a new --run NAME for all."
        )
    if finish is not None:
        finish()
    name = run_name(store.folder)
    once_more = shlex.join(what.command)
    lines = list(failure_lines(failed, name, what.repeats, once_more, what.trials))
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


def report_load(what: Sweep, where: ClusterSetup, wait_seconds: float) -> list[str]:
    """Print whether other programs use the hosts; wait for them if `wait_seconds`.

    Returns what they used at first, a text per host. Simulations are not checked: their times are
    scripted.
    """
    from launch.preflight.idle import await_idle, busy_hosts, named_usages

    if all(trial.scripted for trial in what.trials):
        return []
    check = partial(busy_hosts, where.hosts, where.start)
    usages = {name: facts["usage"] for name, facts in where.facts.items() if "usage" in facts}
    first = named_usages(usages) if where.hosts[0].login else check()
    for line in await_idle(first, check, wait_seconds):
        echo(line, err=True)
    return first


def _repeats_again(folder: Path, wanted: list[PlannedRun], again: Again) -> set[Identity]:
    """Return the wanted repeats of this class in a run; print a line if there is none.

    Repeats of their points that were never measured, as after a larger --repeats, count too.
    """
    from results.run import load, repeats_again

    earlier, names = load(folder), {name for _, name in wanted}
    found = repeats_again(earlier, names, again)
    if not found:
        echo(f"{nothing_again(earlier, names, again)}. Nothing is measured.")
    return found


def _with_earlier(
    wanted: list[PlannedRun], whole: Sweep, where: ClusterSetup, folder: Path
) -> list[PlannedRun]:
    """Return these repeats and, of the sweep's other points, those in the report."""
    from launch.remote.errors import LaunchError
    from launch.sweep import points
    from results.errors import StoreError
    from results.reader import asked_identities

    chosen = {_without_faults(trial) for trial, _ in wanted}
    earlier: set[Identity] = set()
    with suppress(StoreError):  # a damaged list is replaced
        earlier = set(asked_identities(folder))
    keys = {name.key for name in earlier}
    others = [one for one in whole.trials if _without_faults(one) not in chosen]
    trials = tuple(one for one in others if one.key in keys)
    if not trials:
        return wanted
    kept = {one.key for one in trials}
    repeats = max(name.repeat for name in earlier if name.key in kept) + 1
    found = list(wanted)
    for trial in trials:
        with suppress(SpecError, LaunchError):  # other hosts have run it
            runs = points(replace(whole, trials=(trial,), repeats=repeats), where)
            found += [run for run in runs if run[1] in earlier]
    places = {_without_faults(trial): place for place, trial in enumerate(whole.trials)}
    # A batch of --auto-batch is not that of the file.
    return sorted(found, key=lambda run: (run[1].repeat, places.get(_without_faults(run[0]), 0)))


def _without_faults(trial: Trial) -> str:
    """Return the key of the trial without faults, which an option may have added."""
    return trial.replace(fake_faults=()).key


@hosts_task(
    options={
        **PLAN_OPTIONS,
        "retries": OptionHelp(
            "N",
            "Tries after a failure that the point did not cause: killed, lost, stalled, no "
            "rendezvous or another program's",
        ),
        "log_level": LOG_LEVEL,
        "wait_idle": OptionHelp(
            "SECONDS",
            "Wait up to this long until no other program uses the hosts, then measure in any case",
            unit="s",
        ),
        "in_order": OptionHelp(
            "",
            "Run points in file order instead of randomizing the order within each repeat",
        ),
        "speedup_baseline": replace(SPEEDUP_BASELINE, group="Results"),
        "log_budget": OptionHelp(
            "MIB",
            "Keep the last part of each process's output, up to this size",
            unit="MiB",
            group="Results",
        ),
        "port": OptionHelp("PORT", "Port of the scheduler", empty="a free port", group=JOB_GROUP),
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
    again="",
    retries="0",
    wait_idle="0",
    log_level="",
):
    """Run a sweep's remaining points and build the report.

    Runs on this machine, or on a cluster if hosts are given. Finished points are not rerun,
    unless --again selects them. Exits with 3 if a host fails its checks, 5 if a point has no
    result, 6 if a point reached no steady state.
    """
    from bench.settings.secrets import masked_word
    from launch.auto_batch import check_fitting, fitting
    from launch.job.plan import resource_warnings
    from launch.setup import job_setup, listed_hosts

    baseline = checked_baseline(speedup_baseline)
    set_log_level(log_level)
    engine = engine_name(engine)
    hosts = listed_hosts(host_options, only_named=is_scripted(engine))
    fields = option_fields(x, servers_per_host, server_hosts, precision, budget)
    fields |= {"batch_per_device": 1} if auto_batch else {}
    what = sweep_for_hosts(hosts, sweep, fields, engine)
    words = [masked_word(one) for one in host_options.words if not one.startswith(_ONCE)]
    what = replace(what, command=("fab", "bench.sweep", *words))
    redone, patience = again_class(again), parse_float("--wait-idle", wait_idle)
    tries = parse_int("--retries", retries, least=0, most=_MOST_RETRIES)
    if auto_batch:
        check_fitting(what, hosts)
    every = what.trials
    what = selected(what, point, repeats, fault)
    deadlines = _deadlines(rendezvous, first_window, progress)
    listening = parse_int("--port", port, most=65535) if port else None
    with job_setup(hosts, host_options, what, scheduler) as where:
        echo(*resource_warnings(what.trials, where.hosts), err=True)
        kept = parse_int("--log-budget", log_budget) << 20
        patient = replace(where, port=listening, deadlines=deadlines, log_budget=kept)
        patient = replace(patient, retries=tries)
        if auto_batch:
            what = fitting(what, patient, new_folder(run or what.name), auto_batch)
        whole = every if point else ()
        measure(
            what,
            run,
            patient,
            in_order,
            baseline,
            trials=whole,
            again=redone,
            wait_seconds=patience,
        )


@task(
    {
        "sweep": PLAN_OPTIONS["sweep"],
        "nodes": OptionHelp("N", "Nodes to allocate"),
        "devices_per_node": OptionHelp(
            "N", "Training devices of each node", empty="--gpus-per-node"
        ),
        "gpus_per_node": OptionHelp("N", "GPUs per node to allocate", empty="none"),
        "time": OptionHelp("TIME", "Time limit of the job, as sbatch reads it", empty="Slurm's"),
        "partition": OptionHelp("NAME", "Partition of the job", empty="Slurm's"),
        "account": OptionHelp("NAME", "Account of the job", empty="Slurm's"),
        "run": OptionHelp("NAME", "Name of the run", empty="the sweep's name"),
        "options": OptionHelp(
            "OPTIONS", "More options of bench.sweep: '--repeats 5 --point x16'", empty="none"
        ),
    },
    example="seed --nodes 4 --gpus-per-node 8 --time 4:00:00",
)
@read_only_command
def bench_sbatch(  # type: ignore[no-untyped-def]
    c,
    sweep,
    nodes="2",
    devices_per_node="",
    gpus_per_node="",
    time="",
    partition="",
    account="",
    run="",
    options="",
):
    """Print a batch script that runs a sweep under Slurm.

    Submit it with sbatch. The job allocates the nodes, runs the sweep on them with srun in place
    of SSH, and builds the report. Submitted again, it resumes the sweep.
    """
    from bench.sweep import load_sweep
    from launch.hostfile import MOST
    from launch.hosts import ROOT, pretend
    from launch.job.batch_script import TEMPLATE, BatchJob, script_lines

    load_sweep(sweep)
    count = parse_int("--nodes", nodes, most=MOST)
    gpus = parse_int("--gpus-per-node", gpus_per_node, most=MOST) if gpus_per_node else 0
    if not (devices_per_node or gpus):
        expected, fix = "training devices of each node", "Give it, or --gpus-per-node N"
        raise SpecError(error_line("--devices-per-node", expected=expected, got="none", fix=fix))
    devices = parse_int("--devices-per-node", devices_per_node or str(gpus), most=MOST)
    words = [sweep, f"--via={TEMPLATE}", f"--tree={ROOT}", f"--devices-per-node={devices}"]
    words += [f"--run={run}"] if run else []
    words += _more_words(options)
    given = _sweep_values(words)
    what = sweep_for_hosts(
        pretend(count, devices), sweep, _checked_fields(given), engine_name(given["engine"])
    )
    what = selected(what, given["point"], given["repeats"], given["fault"])
    trains = any(one.layout.device == "gpu" and not one.scripted for one in what.trials)
    if trains and devices > gpus:
        missing = f"{gpus} on a node of {devices} devices" if gpus else "none"
        echo(
            f"note: the sweep trains on GPUs, and the script requests {missing}: "
            f"--gpus-per-node {devices}",
            err=True,
        )
    requests = {"gpus-per-node": str(gpus or ""), "time": time}
    job = BatchJob(
        name=what.name,
        tree=str(ROOT),
        nodes=count,
        words=tuple(words),
        requests={**requests, "partition": partition, "account": account},
    )
    echo(*list(script_lines(job)))


def _more_words(options: str) -> list[str]:
    """Split --options into words; SpecError for open quotes or a secret."""
    from bench.settings.secrets import masked_word

    try:
        words = shlex.split(options)
    except ValueError as error:
        problem = f"its quotes do not match ({error})"
        raise SpecError(error_line("--options", problem=problem, fix="Close them")) from None
    for word in words:
        if masked_word(word) != word:
            fix = "Give only its name (-x NAME), and set it where you run sbatch"
            got = quoted(masked_word(word))
            raise SpecError(error_line("--options", expected="no secret", got=got, fix=fix))
        if (name := word.partition("=")[0]) in _OF_THE_SCRIPT:
            problem, fix = "the script reaches the hosts that Slurm allocates", f"Remove {name}"
            raise SpecError(error_line(f"--options: {name}", problem=problem, fix=fix))
    return words


def _sweep_values(words: list[str]) -> dict[str, Any]:
    """Return the values of bench.sweep's options.

    SpecError for words that it does not take.
    """
    from invoke.collection import Collection
    from invoke.exceptions import ParseError
    from invoke.parser import Parser

    from tasks.help import Words

    known = Collection(sweep=bench_sweep)
    try:
        parser = Parser(known.to_contexts())
        (found,) = parser.parse_argv(Words(known).arranged(["sweep", *words], {}))
    except ParseError as error:
        problem, fix = str(error).rstrip("!"), "Run 'fab --help bench.sweep'"
        raise SpecError(error_line("--options", problem=problem, fix=fix)) from None
    return {name.replace("-", "_"): one.value for name, one in found.args.items()}


def _checked_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that options set; SpecError for a rejected value."""
    again_class(given["again"])
    parse_float("--wait-idle", given["wait_idle"])
    parse_int("--retries", given["retries"], least=0, most=_MOST_RETRIES)
    _deadlines(*(given[name] for name in ("rendezvous", "first_window", "progress")))
    checked_baseline(given["speedup_baseline"])
    if given["port"]:
        parse_int("--port", given["port"], most=65535)
    parse_int("--log-budget", given["log_budget"])
    about_points = ("x", "servers_per_host", "server_hosts", "precision", "budget")
    fields = option_fields(*(given[name] for name in about_points))
    return fields | ({"batch_per_device": 1} if given["auto_batch"] else {})


# Options that would replace the hosts of a batch script, or the way to them.
_OF_THE_SCRIPT = ("--hosts", "--hostfile", "--via", "--ssh-config", "--accept-new")
_MOST_RETRIES = 1000
# Options for one execution, which the stored command of a run leaves out.
_ONCE = ("--again=", "--wait-idle=", "--log-level=")


def _deadlines(rendezvous: str, first_window: str, progress: str) -> Deadlines:
    from launch.job.monitor import Deadlines

    return Deadlines(
        rendezvous=parse_int("--rendezvous", rendezvous),
        first_window=parse_int("--first-window", first_window),
        progress=parse_int("--progress", progress),
    )


@task(
    {
        "data": OptionHelp("DATA", f"Shards: {DATA}"),
        "batch": OptionHelp("N", "Images per batch"),
        "nthreads": OptionHelp(
            "LIST",
            "Numbers of decoding threads, one point each: 1,2,4",
            empty="1, 2, 4 ... all cores",
        ),
        "image_shape": OptionHelp(
            "SHAPE",
            "Channels, height and width",
            empty="3,224,224, or a square that all images have",
        ),
        "readers": OptionHelp(
            "N",
            "Processes that read at once; several have a core each, as workers on CPU devices do",
        ),
        "windows": OptionHelp("N", "Windows after warm-up"),
        "engine": OptionHelp(
            "NAME", "Package that hosts must have: mxnet or torch; both read images alike"
        ),
        "log_level": LOG_LEVEL,
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
    c,
    data,
    batch="32",
    nthreads="",
    image_shape="",
    readers="1",
    windows="10",
    engine="mxnet",
    cold=False,
    options="",
    log_level="",
):
    """Benchmark the input pipeline without training.

    Reports images/s for each number of decoding threads. Exits with 5 if a point has no result,
    6 if a point reached no steady state.
    """
    from bench.data.shard_checks import default_shape
    from bench.sweep import Sweep, within
    from bench.trial import make

    set_log_level(log_level)
    given = [parse_int("--image-shape", part) for part in image_shape.split(",") if image_shape]
    shape = given or list(default_shape(data, (3, 224, 224)))
    fields = {
        "engine": engine,
        "mode": "test-io",
        "data_train": data,
        "batch_per_device": parse_int("--batch", batch),
        "image_shape": shape,
        "windows": parse_int("--windows", windows),
        "device": "cpu",
        "devices": parse_int("--readers", readers),
        "devices_per_worker": 1,
        "cold": cold,
        "options": options.split(),
    }
    counts = [parse_int("--nthreads", part) for part in nthreads.split(",")] if nthreads else None
    cores = len(os.sched_getaffinity(0)) // max(1, fields["devices"])
    counts = list(dict.fromkeys(counts or within(max(1, cores))))
    trials = tuple(make(fields | {"data_nthreads": count}) for count in counts)
    description = f"reading {data} with {' / '.join(map(str, counts))} threads"
    what = Sweep(name="io", description=description, repeats=1, trials=trials, text="")
    measure_here(what, timestamped_name("io"))
