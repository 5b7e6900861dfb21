"""bench.bandwidth: what the store moves of what the network could."""

from __future__ import annotations

from collections.abc import Callable
from statistics import mean
from typing import TYPE_CHECKING

from invoke.exceptions import Exit

from bench.errors import SpecError, parse_int, quoted
from bench.kvstores import is_distributed
from bench.networks import named
from bench.sweep import Sweep
from bench.trial import make
from im2rec_tools.terminal import echo
from tasks.bench import measure
from tasks.cluster import NO_HOST_OPTIONS, cluster_hosts, cluster_setup, hosts_task, local_setup
from tasks.report import UNSTEADY, new_folder, run_folder, timestamped_name

if TYPE_CHECKING:  # what needs long to load is loaded when a task runs
    from launch.sweep import ClusterSetup


@hosts_task(
    help={
        "network": "whose arrays are pushed and pulled",
        "kvstore": "a store with servers",
        "workers": "here: how many; default 1. On hosts: one on each",
        "windows": "measured windows, at most",
        "repeats": "fresh jobs",
        "run": "name below results/runs, or a path",
    }
)
def bench_bandwidth(  # type: ignore[no-untyped-def]
    c,
    network="alexnet",
    host_options=NO_HOST_OPTIONS,
    kvstore="dist_sync",
    workers="1",
    windows="60",
    repeats="3",
    run="",
):
    """Push and pull a network's arrays, compute nothing: MB/s, and the share of raw TCP."""
    from launch.preflight.check import tcp_bandwidth
    from results.store import set_environment

    hosts = cluster_hosts(host_options, only_named=False)
    if not is_distributed(kvstore):
        raise SpecError(f"--kvstore: expected one with servers (dist_...), got {quoted(kvstore)}")
    family, layers = named(network)
    count = len(hosts) if hosts else parse_int("--workers", workers)
    trial = make(
        {
            "mode": "bandwidth",
            "network": family,
            "num_layers": layers,
            "kvstore": kvstore,
            "devices": count,
            "devices_per_host": 1 if hosts else count,
            "devices_per_worker": 1,
            "batch_per_device": 1,
            "windows": parse_int("--windows", windows),
        }
    )
    what = Sweep(
        name="bandwidth",
        description=f"what {kvstore} moves of {trial.label}'s arrays",
        repeats=parse_int("--repeats", repeats),
        trials=(trial,),
        text="",
    )
    folder = new_folder(run or timestamped_name("bandwidth"))
    place = cluster_setup(hosts, host_options, what) if hosts else local_setup(what)
    with place as where:
        moved = [tcp_bandwidth(where.hosts, where.start)]

        def measure_raw() -> None:
            moved.append(tcp_bandwidth(where.hosts, where.start))
            set_environment(folder, raw_tcp_mb_per_second=round(mean(moved)))

        unsteady = _measured(what, str(folder), where, measure_raw)
    _tell(str(folder), mean(moved), alone=len(hosts) < 2)
    if unsteady:
        raise unsteady


def _measured(
    what: Sweep, folder: str, where: ClusterSetup, finish: Callable[[], None]
) -> Exit | None:
    """How it is to end where a rate is known, but is not steady."""
    try:
        measure(what, folder, where, finish=finish)
    except Exit as error:
        if error.code != UNSTEADY:
            raise
        return error
    return None


def _tell(run: str, raw: float, *, alone: bool) -> None:
    from results.run import load
    from results.scaling import mb_per_second

    (row,) = load(run_folder(run)).rows
    if row.rate is not None:
        share = mb_per_second(row.trial, row.rate) / raw
        where = "within this machine" if alone else "from the first host to the last"
        echo(
            f"one raw TCP connection {where} moves {raw:.0f} MB/s, before and after: a worker "
            f"moves {share:.0%} of that each way"
        )
