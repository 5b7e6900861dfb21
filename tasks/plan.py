"""Task `bench.plan`, and the options that select the points of a sweep."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench.errors import SpecError, error_line, parse_float, parse_int, quoted
from bench.sweep import MOST_REPEATS, Sweep, load_sweep, with_fault
from bench.trial import chosen
from im2rec_tools.options import OptionHelp
from im2rec_tools.terminal import echo
from tasks.cli import NO_HOST_OPTIONS, hosts_task, read_only_command

if TYPE_CHECKING:  # slow imports wait until a task runs
    from launch.hosts import Host

ENGINE = OptionHelp(
    "ENGINE",
    "Engine: mxnet, or simulated (scripted window times; also called fake)",
    empty="the sweep's",
    group="Simulation",
)
_SIMULATED = "simulated"
JOB_GROUP = "Job"
PLAN_OPTIONS = {
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
}


def engine_name(text: str) -> str:
    """Return the stored name of an engine: 'simulated' is 'fake'."""
    return "fake" if text == _SIMULATED else text


@hosts_task(
    decorator=read_only_command,
    options={
        **PLAN_OPTIONS,
        "port": OptionHelp("PORT", "Port of the scheduler", group=JOB_GROUP),
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


def selected(what: Sweep, point: str, repeats: str, faults: list[str] | None) -> Sweep:
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
