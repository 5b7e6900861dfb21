"""The collection of all tasks: `fab --list`."""

if __name__ == "__main__":
    raise SystemExit("error: fabfile.py: cannot run as a script. Run '.venv/bin/fab --list'")

import os
import signal
import sys
from dataclasses import replace
from types import ModuleType

# Nothing has been started before a task begins; fab itself would make an interrupt exit 1.
signal.signal(signal.SIGINT, lambda *_: os._exit(130))

# Invoke turns this off, so that every command would compile all modules anew.
sys.dont_write_bytecode = bool(sys.flags.dont_write_bytecode)

from invoke.collection import Collection
from invoke.exceptions import Exit
from invoke.tasks import Task

from im2rec_tools.declarations import COMMANDS
from im2rec_tools.terminal import echo
from launch.hosts import ROOT
from tasks import (
    ab,
    bandwidth,
    bench,
    cli,
    compare,
    data,
    doctor,
    hosts,
    plan,
    practice,
    report,
    results,
)
from tasks.cli import command, task
from tasks.report import RUN, UNSTEADY, timestamped_name

cli.install()


def _try_out(sweep: str, run: str) -> None:
    """Run a sweep to show that it works; points without a steady state are no failure."""
    from bench.sweep import load_sweep

    try:
        bench.measure_here(load_sweep(sweep), run)
    except Exit as error:
        if error.code != UNSTEADY:
            raise
        echo(error, err=True)


@task({"run": replace(RUN, empty="smoke-DATE-TIME")})
@command
def smoke(c, run=""):  # type: ignore[no-untyped-def]
    """Train a tiny network with and without servers (1 min).

    For CI: checks that the installation works. Exits with 5 if a point has no result.
    """
    _try_out("smoke", run or timestamped_name("smoke"))


@task()
@command
def demo(c):  # type: ignore[no-untyped-def]
    """Run the demo: sample data, shards, sweep, report.

    Takes four to six minutes on two cores.
    """
    data.run_data_command("sample", root="data/sample")
    data.run_data_command("prepare", dir="data/sample", val_per_class="12", train_shards="2")
    _try_out("demo", "")
    page = report.RUNS / "demo" / "report" / "index.html"
    echo(f"Open {page.relative_to(ROOT)} in a browser.")


def _titled(title: str, group: Collection) -> Collection:
    """Give a group its heading in `fab --list`."""
    group.__doc__ = title
    return group


def _group(name: str, title: str, *modules: ModuleType) -> Collection:
    """Collect a group's tasks by the prefix of their functions: report_show is show."""
    found = [
        (function.removeprefix(f"{name}_"), one)
        for module in modules
        for function, one in vars(module).items()
        if isinstance(one, Task) and function.startswith(f"{name}_")
    ]
    return _titled(title, Collection(name, **dict(found)))


_bench = _group("bench", "Benchmarks", bench, plan, ab, bandwidth, doctor)
_bench.default = "sweep"
namespace = Collection(
    _titled(
        "Image data",
        Collection("data", **{name: data.task_of(one) for name, one in COMMANDS.items()}),
    ),
    _bench,
    _group("hosts", "Hosts of a cluster", hosts),
    _group("practice", "Local test cluster", practice),
    _group("report", "Reports and comparisons", report, compare),
    _group("results", "Runs", results),
    smoke,
    demo,
)
