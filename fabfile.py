"""The names of the commands a person types: `fab --list`."""

import os
import signal
from types import ModuleType

# Until a task's door is reached nothing has been started, and fab would make an interrupt exit 1.
signal.signal(signal.SIGINT, lambda *_: os._exit(130))

from invoke.collection import Collection
from invoke.exceptions import Exit
from invoke.tasks import Task

from bench.sweep import load_sweep
from im2rec_tools.cli import load
from im2rec_tools.commands import NAMES
from im2rec_tools.terminal import echo
from tasks import ab, bandwidth, bench, cli, compare, data, hosts, practice, report, results
from tasks.cli import command, task
from tasks.report import UNSTEADY, timestamped_name

cli.install()


def _try_out(sweep: str, run: str) -> None:
    """Measures a sweep to show that it runs: points that are not steady are no failure of it."""
    try:
        bench.measure_here(load_sweep(sweep), run)
    except Exit as error:
        if error.code != UNSTEADY:
            raise
        echo(error, err=True)


@task(help={"run": "name below results/runs, or a path; default: a new one each time"})
@command
def smoke(c, run=""):  # type: ignore[no-untyped-def]
    """Train a tiny network here with and without servers, in under a minute; for CI."""
    _try_out("smoke", run or timestamped_name("smoke"))


@task
@command
def demo(c):  # type: ignore[no-untyped-def]
    """Go the whole way on this machine: photographs, shards, training, scaling, report."""
    data.run_data_command("sample", root="data/sample")
    data.run_data_command("prepare", dir="data/sample", val_per_class="12", train_shards="2")
    _try_out("demo", "")


def _group(name: str, *modules: ModuleType) -> Collection:
    """The tasks of modules whose functions begin with the group's name: report_show is show."""
    found = [
        (function.removeprefix(f"{name}_"), one)
        for module in modules
        for function, one in vars(module).items()
        if isinstance(one, Task) and function.startswith(f"{name}_")
    ]
    return Collection(name, **dict(found))


_bench = _group("bench", bench, ab, bandwidth)
_bench.default = "sweep"
namespace = Collection(
    Collection("data", **{name: data.task_of(load(name)) for name in NAMES}),
    _bench,
    _group("hosts", hosts),
    _group("practice", practice),
    _group("report", report, compare),
    _group("results", results),
    smoke,
    demo,
)
