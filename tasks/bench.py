"""bench.*: what a sweep needs and what it measures."""

import sys
from dataclasses import replace
from pathlib import Path

from invoke.tasks import task

from bench.engines import ENGINES
from bench.errors import SpecError
from bench.faults import KINDS
from bench.rehearsal import with_fault
from bench.sweep import Sweep, load_sweep
from bench.trial import chosen, make
from launch.logs import BUDGET_BYTES
from launch.watch import Deadlines
from tasks.door import door, whole
from tasks.report import build_report, run_folder, stamped


def measure(
    what: Sweep,
    run: str,
    port: str = "",
    deadlines: Deadlines | None = None,
    log_budget: int = BUDGET_BYTES,
) -> None:
    """Runs what is left of a sweep into its run folder and reports it."""
    from launch.hosts import rehearse, this_machine
    from launch.sweep import Where, points, sweep
    from plots.screen import SweepScreen
    from results.store import Store

    fake = all(trial.engine == "fake" for trial in what.trials)
    most = max(what.trials, key=lambda trial: trial.hosts)
    hosts = rehearse(most.hosts, most.devices_per_host) if fake else (this_machine(),)
    where = Where(
        hosts=hosts,
        port=whole("--port", port) if port else None,
        deadlines=deadlines or Deadlines(),
        log_budget=log_budget,
    )
    wanted = points(what, where)
    store = Store(run_folder(run or what.name))
    try:
        with SweepScreen() as screen:
            for update in sweep(what, wanted, where, store):
                screen.show(update)
    finally:
        store.close()
    build_report(store.folder)


@task(
    help={
        "sweep": "name of a shipped sweep, or a file",
        "hostfile": "lines 'ADDRESS slots=N'",
        "port": "the scheduler's",
        "point": "only points whose name has these words: 'resnet-152 x32'",
    },
)
@door
def bench_plan(c, sweep, hostfile="", port="9091", point=""):  # type: ignore[no-untyped-def]
    """Print every process of a sweep: host, role, environment, command."""
    from launch.hosts import pretend, read_hostfile, this_machine
    from launch.plan import describe, plan

    what = load_sweep(sweep)
    most = max(what.trials, key=lambda trial: trial.hosts)
    if hostfile:
        hosts = read_hostfile(Path(hostfile))
    elif most.hosts > 1 or most.device == "gpu":
        hosts = pretend(most.hosts, most.devices_per_host)
        print(f"# no --hostfile: {len(hosts)} made-up hosts of {most.devices_per_host} devices")
    else:
        hosts = (this_machine(),)
    for trial in chosen(what.trials, point):
        print(
            f"\n# {trial.name}: {trial.hosts} host(s), {trial.workers} worker(s), batch "
            f"{trial.batch_per_device} a device, {trial.worker_batch} a worker, "
            f"{trial.global_batch} in all"
        )
        print(describe(plan(trial, hosts, whole("--port", port))))


@task(
    help={
        "sweep": "name of a shipped sweep, or a file",
        "run": "name below results/runs, or a path; default: the sweep's name",
        "port": "the scheduler's; default: a free one",
        "engine": f"instead of the sweep's: {', '.join(ENGINES)}",
        "fault": f"POINT:ROLE[-INDEX]:KIND[@WINDOW] to rehearse; kinds: {', '.join(KINDS)}",
        "rendezvous": "seconds until all processes of a job have met",
        "first_window": "seconds from the rendezvous to the end of the first window",
        "progress": "seconds between windows (or 10 times the slowest, where that is more)",
        "log_budget": "MiB of what each process prints that are kept, the last of it",
    },
    iterable=["fault"],
)
@door
def bench_sweep(  # type: ignore[no-untyped-def]
    c,
    sweep,
    fault,
    run="",
    port="",
    engine="",
    rendezvous="120",
    first_window="600",
    progress="60",
    log_budget="16",
):
    """Measure what is not measured yet of a sweep, and report it."""
    what = load_sweep(sweep, engine=engine or None)
    if not fault and {"--fault", "-f"} & set(sys.argv):
        # fab takes an option that may be repeated, and has no value, for none at all
        raise SpecError("--fault: expected POINT:ROLE:KIND, got nothing")
    for text in fault:
        what = replace(what, trials=with_fault(what.trials, text))
    deadlines = Deadlines(
        rendezvous=whole("--rendezvous", rendezvous),
        first_window=whole("--first-window", first_window),
        progress=whole("--progress", progress),
    )
    measure(what, run, port, deadlines, whole("--log-budget", log_budget) << 20)


@task(help={"data": "a .rec file, a folder of them, or files joined by ';'"})
@door
def bench_io(  # type: ignore[no-untyped-def]
    c, data, batch="32", nthreads="4", image_shape="3,224,224", windows="10"
):
    """Measure how fast the input pipeline reads, with nothing to feed."""
    shape = [whole("--image-shape", part) for part in image_shape.split(",")]
    trial = make(
        {
            "mode": "test-io",
            "data_train": data,
            "batch_per_device": whole("--batch", batch),
            "data_nthreads": whole("--nthreads", nthreads),
            "image_shape": shape,
            "windows": whole("--windows", windows),
            "device": "cpu",
        }
    )
    description = f"reading {data} in {nthreads} threads"
    what = Sweep(name="io", description=description, repeats=1, trials=(trial,), text="")
    measure(what, stamped("io"))
