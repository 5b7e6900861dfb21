"""The names of the commands a person types: `fab --list`."""

import os
import signal

# Until a task's door is reached nothing has been started, and fab would make an interrupt exit 1.
signal.signal(signal.SIGINT, lambda *_: os._exit(130))

from invoke.collection import Collection
from invoke.exceptions import Exit

from bench.sweep import load_sweep
from im2rec_tools.cli import load
from im2rec_tools.commands import NAMES
from im2rec_tools.terminal import echo
from tasks import cli, data
from tasks.ab import bench_ab
from tasks.bandwidth import bench_bandwidth
from tasks.bench import bench_io, bench_plan, bench_sweep, measure_here
from tasks.cli import command, task
from tasks.compare import report_baseline, report_baselines, report_compare, report_history
from tasks.hosts import hosts_check, hosts_install, hosts_logs, hosts_stop, push_data
from tasks.practice import (
    practice_cut,
    practice_down,
    practice_kill,
    practice_mend,
    practice_rate,
    practice_show,
    practice_up,
)
from tasks.report import UNSTEADY, report_build, report_show, report_verify, timestamped_name
from tasks.results import (
    results_export,
    results_import,
    results_list,
    results_pack,
    results_rm,
    results_show,
    results_unpack,
)

cli.install()


def _try_out(sweep: str, run: str) -> None:
    """Measures a sweep to show that it runs: points that are not steady are no failure of it."""
    try:
        measure_here(load_sweep(sweep), run)
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


namespace = Collection(
    Collection("data", **{name: data.task_of(load(name)) for name in NAMES}),
    Collection("bench", plan=bench_plan, io=bench_io, ab=bench_ab, bandwidth=bench_bandwidth),
    Collection(
        "hosts",
        check=hosts_check,
        install=hosts_install,
        logs=hosts_logs,
        stop=hosts_stop,
        **{"push-data": push_data},
    ),
    Collection(
        "practice",
        up=practice_up,
        show=practice_show,
        cut=practice_cut,
        mend=practice_mend,
        rate=practice_rate,
        kill=practice_kill,
        down=practice_down,
    ),
    Collection(
        "report",
        build=report_build,
        show=report_show,
        compare=report_compare,
        baseline=report_baseline,
        baselines=report_baselines,
        history=report_history,
        verify=report_verify,
    ),
    Collection(
        "results",
        list=results_list,
        show=results_show,
        rm=results_rm,
        pack=results_pack,
        unpack=results_unpack,
        export=results_export,
        **{"import": results_import},
    ),
    smoke,
    demo,
)
namespace.collections["bench"].add_task(bench_sweep, "sweep", default=True)
