"""Task `bench.doctor`: what will limit a sweep on this machine or these hosts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from invoke.exceptions import Exit

from bench.data import DATA
from bench.errors import SpecError, error_line
from im2rec_tools.options import OptionHelp
from im2rec_tools.terminal import echo
from tasks.bench import report_load
from tasks.cli import NO_HOST_OPTIONS, hosts_task
from tasks.plan import LOG_LEVEL, set_log_level, sweep_for_hosts
from tasks.report import RUN, new_folder, run_name, timestamped_name

if TYPE_CHECKING:  # slow imports wait until a task runs
    from bench.sweep import Sweep
    from launch.hosts import Host
    from results.explain.machine_limits import Layouts
    from results.scaling import ScalingRow

_SECONDS, _WINDOWS, _TRANSFERS = 8.0, 12, 200
_READ_BATCH = 32
# The shards of `fab demo`.
_SAMPLE = "data/sample_rec/train"
# What points of a network share with the sweep's own.
_ALIKE = ("network", "num_layers", "image_shape", "num_classes", "dtype", "env", "python")


@hosts_task(
    {
        "sweep": OptionHelp(
            "SWEEP",
            "Name of a shipped sweep, or a .toml file",
            empty="the sweep that bench.new would write",
        ),
        "data": OptionHelp(
            "DATA", f"Shards to read: {DATA}", empty="the sweep's, else those of fab demo"
        ),
        "run": OptionHelp(RUN.metavar, RUN.text, empty="doctor-DATE-TIME"),
        "log_level": LOG_LEVEL,
    },
    example="--sweep mine.toml",
)
def bench_doctor(c, sweep="", host_options=NO_HOST_OPTIONS, data="", run="", log_level=""):  # type: ignore[no-untyped-def]
    """Measure a machine; print what will limit a sweep.

    Measures noise, one device, the input pipeline, kvstore and memory in about two minutes, and
    prints the settings to change. Exits with 3 if a host fails its checks, 5 if a part has no
    result.
    """
    from im2rec_tools.console import Screen
    from launch.preflight.check import tcp_bandwidth
    from launch.preflight.noise import window_seconds
    from launch.setup import job_setup, listed_hosts
    from launch.sweep import points
    from launch.sweep import sweep as run_sweep
    from plots.failed_repeats import failure_lines
    from plots.screen import show_sweep
    from plots.tables.doctor import finding_lines, machine_lines, network_table, part_lines
    from results.explain.machine_limits import (
        findings,
        layouts,
        machine_figures,
        network_figures,
    )
    from results.run import load
    from results.store import Store

    set_log_level(log_level)
    hosts = listed_hosts(host_options)
    planned = _planned(hosts, sweep)
    uses = layouts(planned.trials)
    if not uses:
        raise SpecError(
            error_line(
                "--sweep",
                expected="a point that trains",
                got="none",
                fix="Add one with mode = 'synthetic'",
            )
        )
    parts = _parts(planned, uses, len(hosts), data)
    folder = new_folder(run or timestamped_name("doctor"))
    with job_setup(hosts, host_options, parts) as where:
        wanted = points(parts, where)  # reports a mistake in the data first
        facts = where.facts.get(where.hosts[0].name, {})
        echo(*machine_lines(facts))
        report_load(parts, where, wait_seconds=0)
        noise = [] if hosts else window_seconds()
        raw = tcp_bandwidth(where.hosts, where.start)
        with closing(Store(folder)) as store:
            failed = show_sweep(run_sweep(parts, wanted, where, store))
    rows = load(folder).rows
    machine = machine_figures(rows, facts, noise, raw)
    networks = [
        network_figures(use, *(_row(rows, use, mode) for mode in ("synthetic", "bandwidth")))
        for use in uses
    ]
    echo(*part_lines(machine))
    Screen(highlight=False).print(network_table(networks, machine))
    echo(*finding_lines(findings(networks, machine, _precision(planned))))
    if failed:
        run = run_name(folder)
        echo(*failure_lines(failed, run, parts.repeats), err=True)
        raise Exit(f"{len(failed)} of {len(parts.trials)} parts have no result", code=5)


def _planned(hosts: Sequence[Host], sweep: str) -> Sweep:
    """Return the sweep to check; SpecError for a simulation."""
    from bench.sweep import parse_sweep
    from launch.sweep_file import fitting_text, hardware

    if sweep:
        found = sweep_for_hosts(hosts, sweep, {}, "")
    elif hosts:
        raise SpecError(
            error_line(
                "--sweep",
                expected="a sweep for these hosts",
                got="none",
                fix="Name one, such as fab bench.doctor --sweep seed --hostfile hosts",
            )
        )
    else:
        text, _ = fitting_text("fab bench.doctor", 1, (), hardware(), lambda _: 0.0)
        found = parse_sweep(Path("doctor.toml"), text)
    if any(trial.scripted for trial in found.trials):
        raise SpecError(
            error_line(
                "--sweep",
                expected="engine 'mxnet'",
                got="the simulated engine",
                fix="Name a sweep without engine = 'fake'",
            )
        )
    return found


def _precision(planned: Sweep) -> float:
    """Return the narrowest precision of the sweep's points; 0 without any."""
    return min(
        (one.measuring.precision for one in planned.trials if one.measuring.precision), default=0.0
    )


def _parts(planned: Sweep, uses: Sequence[Layouts], hosts: int, data: str) -> Sweep:
    """Return the short jobs: per network one device alone and the kvstore; reading."""
    from bench.sweep import Sweep
    from bench.trial import make

    trials = []
    for use in uses:
        alike = {name: use.trial.value(name) for name in _ALIKE}
        limits = {"windows": _WINDOWS, "budget_seconds": _SECONDS, "precision": 0.0}
        gpu = use.trial.layout.device == "gpu"
        alone = {
            "mode": "synthetic",
            "device": use.trial.layout.device,
            "kvstore": "device" if gpu else "local",
            "batch_per_device": use.batch,
            "steps_per_window": use.trial.measuring.steps_per_window,
        }
        workers = hosts if hosts > 1 else max(1, use.workers) if use.distributed else 1
        exchange = {
            "mode": "bandwidth",
            "kvstore": _store(planned),
            "devices": workers,
            "devices_per_host": 1 if hosts else workers,
            "devices_per_worker": 1,
            "batch_per_device": 1,
            "windows": _TRANSFERS,
        }
        trials += [make(alike | limits | part) for part in (alone, exchange)]
    shards = data or _shards(planned)
    if shards:
        threads = len(os.sched_getaffinity(0))
        shape = max(use.trial.model.image_shape for use in uses)
        reading = {"mode": "test-io", "data_train": shards, "data_nthreads": threads}
        reading |= {"batch_per_device": _READ_BATCH, "image_shape": shape, "windows": _WINDOWS}
        trials.append(make(reading))
    return Sweep(
        name="doctor",
        description=f"parts of {planned.name}: one device, kvstore and input pipeline",
        repeats=1,
        trials=tuple(dict.fromkeys(trials)),
        text="",
    )


def _store(planned: Sweep) -> str:
    comms = (one.comm for one in planned.trials)
    return next((comm.name for comm in comms if comm.servers), "dist_sync")


def _shards(planned: Sweep) -> str:
    """Return the shards of the sweep, else those of the demo, else ''."""
    own = next((one.data.train for one in planned.trials if one.data.train), "")
    return own or (_SAMPLE if Path(_SAMPLE).is_dir() else "")


def _row(rows: Sequence[ScalingRow], use: Layouts, mode: str) -> ScalingRow | None:
    """Return the row of a network's part."""
    names = ("network", "num_layers", "dtype")
    wanted = [use.trial.value(name) for name in names]
    found = (one for one in rows if one.trial.mode == mode)
    return next((one for one in found if [one.trial.value(name) for name in names] == wanted), None)
