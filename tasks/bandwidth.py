"""Task `bench.bandwidth`: the kvstore's bandwidth against raw TCP."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from invoke.exceptions import Exit

from bench.errors import SpecError, error_line, parse_int, quoted
from im2rec_tools.options import OptionHelp
from im2rec_tools.terminal import echo
from tasks.bench import measure
from tasks.cli import NO_HOST_OPTIONS, hosts_task
from tasks.plan import LOG_LEVEL, set_log_level
from tasks.report import RUN, UNSTEADY, new_folder, run_folder, timestamped_name

if TYPE_CHECKING:  # slow imports wait until a task runs
    from bench.trial import Trial


@hosts_task(
    {
        "network": OptionHelp("NETWORK", "Network whose arrays are pushed and pulled"),
        "kvstore": OptionHelp("NAME", "A kvstore with servers"),
        "workers": OptionHelp(
            "N", "Worker processes, equally many on each host", empty="one per host"
        ),
        "windows": OptionHelp("N", "Maximum number of measured windows"),
        "repeats": OptionHelp("N", "Number of repeats, each a fresh job"),
        "run": replace(RUN, empty="bandwidth-DATE-TIME"),
        "log_level": LOG_LEVEL,
    }
)
def bench_bandwidth(  # type: ignore[no-untyped-def]
    c,
    network="alexnet",
    host_options=NO_HOST_OPTIONS,
    kvstore="dist_sync",
    workers="",
    windows="60",
    repeats="3",
    run="",
    log_level="",
):
    """Measure the kvstore's bandwidth against raw TCP.

    Workers push and pull a network's arrays and compute nothing. Reports MB/s, also as a share of
    the bandwidth of one raw TCP connection.
    """
    from statistics import mean

    from bench.kvstores import find_kvstore
    from bench.sweep import Sweep
    from launch.preflight.check import tcp_bandwidth
    from launch.setup import job_setup, listed_hosts
    from results.store import set_environment

    set_log_level(log_level)
    hosts = listed_hosts(host_options)
    if not find_kvstore(kvstore).servers:
        raise SpecError(
            error_line("--kvstore", expected="a store with servers (dist_...)", got=quoted(kvstore))
        )
    places = max(1, len(hosts))
    count = parse_int("--workers", workers) if workers else places
    if count % places:
        multiple = f"a multiple of {places}, the number of hosts"
        fix = "Choose equally many workers for each host"
        raise SpecError(error_line("--workers", expected=multiple, got=workers, fix=fix))
    each, most = count // places, parse_int("--windows", windows)
    trial = _trial(network, kvstore, count, each, most)
    what = Sweep(
        name="bandwidth",
        description=f"bandwidth of {kvstore} with the arrays of {trial.label}",
        repeats=parse_int("--repeats", repeats),
        trials=(trial,),
        text="",
    )
    folder = new_folder(run or timestamped_name("bandwidth"))
    unsteady: Exit | None = None
    with job_setup(hosts, host_options, what) as where:
        moved = [tcp_bandwidth(where.hosts, where.start)]

        def measure_raw() -> None:
            moved.append(tcp_bandwidth(where.hosts, where.start))
            set_environment(folder, raw_tcp_mb_per_second=round(mean(moved), 2))

        try:
            measure(what, str(folder), where, finish=measure_raw)
        except Exit as error:  # there is a result, without a steady state
            if error.code != UNSTEADY:
                raise
            unsteady = error
    _show(str(folder), mean(moved), alone=len(hosts) < 2)
    if unsteady:
        raise unsteady


def _trial(network: str, kvstore: str, devices: int, devices_per_host: int, windows: int) -> Trial:
    from bench.networks import named
    from bench.trial import make

    family, layers = named(network)
    return make(
        {
            "mode": "bandwidth",
            "network": family,
            "num_layers": layers,
            "kvstore": kvstore,
            "devices": devices,
            "devices_per_host": devices_per_host,
            "devices_per_worker": 1,
            "batch_per_device": 1,
            "windows": windows,
        }
    )


def _show(run: str, raw: float, *, alone: bool) -> None:
    from results.run import load
    from results.scaling import mb_per_second

    (row,) = load(run_folder(run)).rows
    if row.rate is not None:
        share = mb_per_second(row.trial, row.rate) / raw
        where = "within this machine" if alone else "from the first host to the last"
        echo(
            f"one raw TCP connection {where} moves {raw:.0f} MB/s (mean of before and after); a "
            f"worker moves {share:.0%} of that in each direction"
        )
