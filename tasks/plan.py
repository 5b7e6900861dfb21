"""Task `bench.plan`, and the options that select the points of a sweep."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench.engines.faults import KINDS
from bench.errors import SpecError, error_line, parse_float, parse_int, quoted
from im2rec_tools.options import OptionHelp
from im2rec_tools.progress import time_left
from im2rec_tools.terminal import echo
from tasks.cli import NO_HOST_OPTIONS, command, hosts_task, read_only_command, task
from tasks.report import RUN, RUNS, new_folder

if TYPE_CHECKING:  # slow imports wait until a task runs
    from pathlib import Path

    from bench.sweep import Sweep
    from bench.trial import Trial
    from launch.forecast import PointForecast
    from launch.hosts import Host
    from launch.job.plan import Process
    from results.record import Identity
    from results.run import Again, Run

ENGINE = OptionHelp(
    "ENGINE",
    "Engine of all points: mxnet, torch or simulated (scripted window times; also called fake)",
    empty="the sweep's",
    group="Simulation",
)
LOG_LEVEL = OptionHelp(
    "LEVEL",
    "Print entries of the controller's log from this level: debug, info, warning or error; "
    "controller.log in the run folder has all",
    empty="MXSCALE_LOG_LEVEL, else warning",
)
_SIMULATED = "simulated"
_MOST_MINUTES = 100_000
_MOST_VALUES = 12
JOB_GROUP = "Job"
PLAN_OPTIONS = {
    "sweep": OptionHelp(
        "SWEEP",
        "Name of a shipped sweep (cifar10, compare-engines, demo, gate, gpu-check, horovod, "
        "horovodrun, imagenet, mnist-lenet, r-alexnet, seed, smoke, tarantella, terngrad, "
        "tf-cnn-benchmarks, torchrun, train-imagenet), or a file with or without .toml",
    ),
    "point": OptionHelp(
        "WORDS",
        "Only points whose names contain these words, or have FIELD=VALUE: "
        "'resnet-152 x32 gc_type=2bit'",
        empty="all",
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
        "N", "Server processes per host", empty="the sweep's, else one per worker", group=JOB_GROUP
    ),
    "server_hosts": OptionHelp(
        "N", "Number of hosts that run servers only", empty="the sweep's, else 0", group=JOB_GROUP
    ),
    "x": OptionHelp(
        "NAME[=VALUE]",
        "Set an environment variable of every process; NAME alone passes its value on this "
        "machine, which is not recorded",
        empty="none",
        group=JOB_GROUP,
    ),
    "repeats": OptionHelp("N", "Repeats of each point, each a fresh job", empty="the sweep's"),
    "again": OptionHelp(
        "CLASS",
        "Measure only these repeats of the run, once more: failed (no result), unstable (no "
        "steady state) or `doubtful` (all of a point of that quality); earlier tries are kept",
        empty="none",
    ),
    "auto_batch": OptionHelp(
        "N",
        "Use the largest batch per device that fits each network, at most N if given",
        empty="off",
    ),
    "run": replace(RUN, empty="the sweep's name", group="Results"),
    "scheduler": OptionHelp(
        "PLACE",
        "Where the scheduler runs: first (on the first host) or controller (on this machine)",
        group=JOB_GROUP,
    ),
    "engine": ENGINE,
    "fault": OptionHelp(
        "FAULT",
        "Inject a fault into a simulated point: POINT:ROLE[-INDEX]:KIND[@WINDOW][:first], such as "
        "x2:worker-1:kill@3; kinds (see docs/how-to/rehearse-failures.md): " + ", ".join(KINDS),
        empty="none",
        group="Simulation",
    ),
}


def set_log_level(text: str) -> None:
    """Print the controller's log from this level on; '' for the default."""
    from launch.job.controller_log import parse_level, print_log

    print_log(parse_level(text))


def engine_name(text: str) -> str:
    """Return the stored name of an engine: 'simulated' is 'fake'."""
    return "fake" if text == _SIMULATED else text


def is_scripted(engine: str) -> bool:
    """Return whether the engine of this stored name, if one is given, simulates."""
    from bench.engines.catalog import find_engine

    return find_engine(engine).scripted


@hosts_task(
    decorator=read_only_command,
    options={
        **PLAN_OPTIONS,
        "port": OptionHelp("PORT", "Port of the scheduler", group=JOB_GROUP),
        "commands": OptionHelp("", "Print the commands of all processes instead of the table"),
    },
    iterable=["fault", "x"],
    optional=["auto_batch"],
    example="smoke --hostfile hosts",
)
def bench_plan(  # type: ignore[no-untyped-def]
    c,
    sweep,
    fault=None,
    x=None,
    host_options=NO_HOST_OPTIONS,
    run="",
    port="9091",
    point="",
    engine="",
    servers_per_host="",
    server_hosts="",
    precision="",
    budget="",
    repeats="",
    scheduler="first",
    auto_batch="",
    again="",
    commands=False,
):
    """Print the points, runs and expected time of a sweep.

    Starts nothing. Estimates the time from earlier runs on these hosts. With --commands, prints
    the host, role, environment and command of each process, for every point.
    """
    from launch.auto_batch import check_fitting, known_batches
    from launch.hosts import this_machine
    from launch.job.plan import host_warnings, plan, resource_warnings
    from launch.setup import listed_hosts, local_warnings, planned_hosts, planned_scheduler
    from launch.sweep import check_local_data

    engine, redone = engine_name(engine), again_class(again)
    listed = listed_hosts(host_options, only_named=is_scripted(engine))
    fields = option_fields(x, servers_per_host, server_hosts, precision, budget)
    fields |= {"batch_per_device": 1} if auto_batch else {}
    what = sweep_for_hosts(listed, sweep, fields, engine)
    if auto_batch:
        check_fitting(what, listed)
    what = selected(what, point, repeats, fault)
    folder = new_folder(run or what.name)
    unknown: list[str] = []
    if auto_batch:
        what, unknown = known_batches(what, folder, auto_batch)
    data_notes = check_local_data(what.trials)
    hosts, note = planned_hosts(listed, what)
    measured = measured_there(what, hosts, folder)
    if redone:
        what, measured = _again(what, hosts, folder, redone)
        if not what.trials:
            return
    place = planned_scheduler(scheduler) if listed else None
    plans = {
        trial: plan(trial, hosts, parse_int("--port", port, most=65535), place)
        for trial in what.trials
    }
    if commands:
        echo(*note)
        _show_commands(plans, hosts)
        return
    _show_points(sweep_forecast(what, measured, hosts, folder), hosts)
    # Without listed hosts, a sweep runs on this machine, whatever the plan shows.
    echo(*resource_warnings(what.trials, hosts if listed else [this_machine()]))
    echo(*data_notes)
    if not listed:
        echo(*host_warnings(what.trials), *_missing_data(what.trials))
        echo(*local_warnings(what.trials))
    if unknown:
        echo(f"batch not known before the sweep searches it: {', '.join(unknown)}")
    echo("--commands prints the commands of all processes")


def _missing_data(trials: Iterable[Trial]) -> list[str]:
    """Return a warning for each set of shards that is not on this machine."""
    from launch.sweep import data_manifest

    found: dict[str, None] = {}
    for trial in {one.data: one for one in trials if not one.scripted}.values():
        try:
            data_manifest(trial)
        except SpecError as error:
            found[f"warning: {error}"] = None
    return list(found)


def _show_commands(plans: dict[Trial, list[Process]], hosts: Sequence[Host]) -> None:
    from bench.settings.point_names import point_names
    from launch.job.plan import describe, oversubscription

    for name, (trial, processes) in zip(point_names([*plans]), plans.items(), strict=True):
        echo(
            "",
            f"# {name}: {trial.hosts} host{'s' * (trial.hosts > 1)}, "
            f"{trial.workers} worker{'s' * (trial.workers > 1)}, batch "
            f"{trial.device_batch} per device, {trial.worker_batch} per worker, "
            f"{trial.global_batch} in total",
        )
        echo(*oversubscription(trial, hosts), *describe(processes))


def again_class(text: str) -> Again | None:
    """Return the class that --again names, None for ''; SpecError for another."""
    from results.run import Again

    if not text:
        return None
    if text not in list(Again):
        expected = ", ".join(Again)
        raise SpecError(
            error_line("--again", expected=f"one of {expected}", got=quoted(text), fix="Name one")
        )
    return Again(text)


def nothing_again(run: Run, wanted: Collection[Identity], again: Again) -> str:
    """Return that a run has no wanted repeat of this class, with the number of others."""
    from results.run import to_measure_again

    others = len(set(to_measure_again(run, again)) - set(wanted))
    text = f"; {others} of other points, code, data or hosts" if others else ""
    return f"--again {again}: no such repeat in {run.name}{text}"


def measured_there(what: Sweep, hosts: Sequence[Host], folder: Path) -> list[str]:
    """Return the point's key of each run of a sweep that its run folder holds."""
    from launch.forecast import measured_keys

    return measured_keys(folder, what.trials, what.repeats, _measuring(what, hosts))


def _measuring(what: Sweep, hosts: Sequence[Host]) -> Sequence[Host]:
    """Return the hosts by the names that records have."""
    from launch.hosts import rehearse

    if all(one.scripted for one in what.trials) and not any(one.login for one in hosts):
        return rehearse(max(one.hosts for one in what.trials), 1)
    return hosts


def _again(
    what: Sweep, hosts: Sequence[Host], folder: Path, again: Again
) -> tuple[Sweep, list[str]]:
    """Return the points that --again selects, and the keys of their other runs.

    Prints a line if it selects none.
    """
    from launch.forecast import planned_runs
    from results.run import load, repeats_again

    earlier = load(folder)
    known = [one.identity for row in earlier.rows for one in row.repeats]
    wanted = planned_runs(known, what.trials, what.repeats, _measuring(what, hosts))
    found = repeats_again(earlier, wanted, again)
    if not found:
        echo(nothing_again(earlier, wanted, again))
    keys = {one.key for one in found}
    trials = tuple(one for one in what.trials if one.key in keys)
    return replace(what, trials=trials), [one.key for one in wanted if one not in found]


def sweep_forecast(
    what: Sweep, measured: Iterable[str], hosts: Sequence[Host], folder: Path
) -> list[PointForecast]:
    """Forecast a sweep by the newest runs on these hosts, and by its own.

    `measured` has the key of each measured run.
    """
    from launch.forecast import earlier_runs, forecast
    from launch.hosts import rehearse

    names = {host.name for host in (*hosts, *rehearse(max(t.hosts for t in what.trials), 1))}
    return forecast(what.trials, what.repeats, measured, earlier_runs(RUNS, names, folder))


def plan_line(points: Sequence[PointForecast], hosts: Sequence[Host]) -> str:
    """Return the line '8 points, 24 runs, 72 processes, 0 measured, about 4 min'."""
    processes = sum(one.processes for one in points)
    runs, measured = sum(one.runs for one in points), sum(one.measured for one in points)
    parts = [
        f"{len(points)} point{'s' * (len(points) != 1)}",
        f"{runs} run{'s' * (runs != 1)}",
        f"{processes} process{'es' * (processes != 1)}",
        f"{measured} measured",
    ]
    if measured < runs:
        left = time_left(sum(one.seconds_left for one in points))
        parts.append(f"about {left} on {_place(points, hosts)}{_assumption(points)}")
    return ", ".join(parts)


def product_lines(trials: Sequence[Trial]) -> list[str]:
    """Return the line 'varies: kvstore (local, dist_sync), devices (1, 2)', if any."""
    from bench.settings.point_names import short_value, varying
    from plots.format import list_names

    values: dict[str, list[str]] = {
        "network": [trial.label for trial in trials],
        "mode": [trial.mode for trial in trials],
        "kvstore": [trial.store_name for trial in trials],
        "devices": [str(trial.layout.devices) for trial in trials],
    }
    for name in varying(trials):
        values[name] = [short_value(trial.value(name)) for trial in trials]
    distinct = {name: list(dict.fromkeys(some)) for name, some in values.items()}
    parts = [
        f"{name} ({list_names(some, _MOST_VALUES, ', ')})"
        for name, some in distinct.items()
        if len(some) > 1
    ]
    return [f"varies: {', '.join(parts)}"] if parts else []


def _place(points: Sequence[PointForecast], hosts: Sequence[Host]) -> str:
    listed = any(one.login for one in hosts)
    if not listed and (len(hosts) == 1 or all(one.trial.scripted for one in points)):
        return "this machine"
    return f"{len(hosts)} {'' if listed else 'example '}host{'s' * (len(hosts) > 1)}"


def _assumption(points: Sequence[PointForecast]) -> str:
    left = [one for one in points if one.measured < one.runs]
    guessed = [one for one in left if one.assumed]
    if not guessed:
        return ""
    seconds = round(sum(one.seconds for one in guessed) / len(guessed))
    which = "" if guessed == left else f" for {len(guessed)} of {len(points)} points"
    return f", assuming {seconds} s per run: no earlier records{which}"


def _show_points(points: Sequence[PointForecast], hosts: Sequence[Host]) -> None:
    from bench.settings.point_names import point_names
    from im2rec_tools.console import Screen, cell
    from plots.tables.layout import terminal_table

    echo(plan_line(points, hosts), *product_lines([one.trial for one in points]))
    names = ("point", "devices", "hosts", "batch/worker/job", "runs", "time left")
    table = terminal_table(names, {"point"})
    shown = point_names([one.trial for one in points])
    for one, name in zip(points, shown, strict=True):
        trial = one.trial
        batch = f"{trial.device_batch}/{trial.worker_batch}/{trial.global_batch}"
        left = f"about {time_left(one.seconds_left)}" if one.seconds_left else "measured"
        counts = (trial.layout.devices, trial.hosts, batch, f"{one.measured}/{one.runs}", left)
        table.add_row(*(cell(str(value)) for value in (name, *counts)))
    console = Screen(highlight=False)
    wide = console if console.is_terminal else Screen(highlight=False, width=120)
    wide.print(table)


def selected(what: Sweep, point: str, repeats: str, faults: list[str] | None) -> Sweep:
    """Return the sweep with the points, repeats and faults that the options select."""
    from bench.settings.point_names import chosen
    from bench.sweep import MOST_REPEATS, with_fault

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
    from bench.sweep import load_sweep, unused_file

    if own := unused_file(sweep):
        note = f"note: {quoted(sweep)} is the shipped sweep; for your file, type ./{own}"
        echo(note, err=True)
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
        "name": OptionHelp("NAME", "Name of the new sweep; NAME.toml is written"),
        "minutes": OptionHelp("MINUTES", "Time that the sweep may take", unit="min"),
        "networks": OptionHelp(
            "LIST",
            "Networks to train: tiny,resnet-50",
            empty="alexnet, inception-v3, resnet-152, as many as fit",
        ),
    },
    example="mine --minutes 10",
)
@command
def bench_new(c, name, minutes="10", networks=""):  # type: ignore[no-untyped-def]
    """Write a sweep file that fits this machine and the time.

    Chooses networks, batches, device counts, kvstores and repeats, with a comment on each. Never
    replaces a file.
    """
    from bench.networks import named
    from bench.sweep import parse_sweep
    from launch.forecast import earlier_runs, forecast
    from launch.hosts import this_machine
    from launch.sweep_file import fitting_text, hardware

    name = name.removesuffix(".toml")
    file = _new_file(name)
    asked = [one.strip() for one in networks.split(",") if one.strip()]
    words = f"fab bench.new {name} --minutes {minutes}"
    words += f" --networks {','.join(asked)}" if asked else ""
    for one in asked:
        try:
            named(one)
        except SpecError as error:
            raise SpecError(error_line("--networks", problem=str(error))) from error
    hosts = [this_machine()]
    earlier = earlier_runs(RUNS, [hosts[0].name])
    ahead: list[PointForecast] = []

    def seconds(text: str) -> float:
        what = parse_sweep(file, text)
        ahead[:] = forecast(what.trials, what.repeats, (), earlier)
        return sum(one.seconds_left for one in ahead)

    most = parse_int("--minutes", minutes, most=_MOST_MINUTES)
    text, limits = fitting_text(words, most, asked, hardware(), seconds)
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(text)
    except OSError as error:
        problem = f"cannot be written ({error.strerror})"
        raise SpecError(error_line(file, problem=problem, fix="Choose another name")) from error
    echo(file, plan_line(ahead, hosts), *(f"note: {one}" for one in limits))
    echo(*(shlex.join(["fab", task, name]) for task in ("bench.plan", "bench.sweep")))


def _new_file(name: str) -> Path:
    """Return the path of a new sweep; SpecError if the name is in use."""
    from pathlib import Path

    from bench.sweep import SHIPPED

    file = Path(f"{name}.toml")
    if (SHIPPED / file.name).is_file():
        expected = "a name that no shipped sweep has"
        raise SpecError(error_line("NAME", expected=expected, got=quoted(name)))
    if file.exists():
        fix = "Choose another name, or remove the file"
        raise SpecError(error_line(file, expected="no such file", got="one", fix=fix))
    return file
