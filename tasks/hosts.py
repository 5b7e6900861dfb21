"""hosts.*: what the hosts of a cluster are, and what of ours runs on them."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invoke.exceptions import Exit

from bench.errors import brief, parse_int, quoted
from im2rec_tools.terminal import echo
from launch.hosts import Host, HostOptions
from launch.remote.errors import LaunchError
from launch.transport.line import Starter
from results.errors import StoreError
from tasks.cli import NO_HOST_OPTIONS, hosts_task, read_only_command, short_path, task
from tasks.report import RUNS, run_folder

if TYPE_CHECKING:
    from launch.push import PushProgress

_PROBLEMS = 3


def show_progress(updates: "Iterable[PushProgress]") -> "dict[str, PushProgress]":
    """Shows how far each host's push is, in MB; returns the last of each."""
    from im2rec_tools.bars import Bars

    last: dict[str, PushProgress] = {}
    with Bars() as bars:
        for moved in updates:
            last[moved.host] = moved
            step = f"{moved.host}: {moved.step}"
            if moved.total:
                bars.show(step, moved.done // 10**6, -(-moved.total // 10**6), "MB")
    return last


@hosts_task(
    help={
        "source": "a folder of .rec files, or one with train/ and val/ below it",
        "into": "folder there, relative to the checkout; default: where it is in this one",
        "shared": "copy nothing: see that all hosts have the same files",
        "verify": "read every byte on the hosts, and copy again what differs from the files here",
    },
)
def hosts_push_data(  # type: ignore[no-untyped-def]
    c, source, host_options=NO_HOST_OPTIONS, into="", shared=False, verify=False
):
    """Copy each host its own share of a data set's shards; run again, it copies what is missing."""
    from launch.data_shares import target
    from launch.setup import ready_hosts

    folder = target(Path(source), into)
    with ready_hosts(host_options) as (hosts, start):
        serve = _compare_data if shared else _copy_data
        serve(Path(source), hosts, start, folder, verify=verify)


def _compare_data(
    source: Path, hosts: Sequence[Host], start: Starter, into: str, *, verify: bool
) -> None:
    from launch.data_shares import everything, not_seen

    pieces = everything(source)
    wrong = not_seen(pieces, hosts, start, into, verify=verify)
    for line in wrong:
        echo(line)
    if wrong:
        raise LaunchError(
            f"{len(wrong)} of {len(hosts)} hosts have other files in {into}; leave --shared out to "
            f"give each host its share"
        )
    read = ", every byte compared" if verify else ""
    echo(f"{len(hosts)} host(s) have the same {len(pieces)} files in {into}{read}")


def _copy_data(
    source: Path, hosts: Sequence[Host], start: Starter, into: str, *, verify: bool
) -> None:
    from launch.data_shares import hand_out, parcels
    from results.integrity.archive import scratch

    with scratch() as labels:
        given = parcels(source, len(hosts), labels)
        last = show_progress(hand_out(given, hosts, start, into, verify=verify))
    for one, host in zip(given, hosts, strict=True):
        moved, size = last[host.name], sum(piece.size for piece in one.pieces)
        for name in moved.other:
            echo(f"{host.name}: {into}/{name} differed from the file here; copied again")
        echo(
            f"{host.name}: {one.share.label}, {size / 1e6:.1f} MB in {into}; copied "
            f"{moved.files} of {len(one.pieces)} files, {moved.total / 1e6:.1f} MB"
        )


@task(
    help={
        "run": "name below results/runs, or a path; default: the newest that has logs",
        "point": "of the points whose name has these words, 'alexnet x32', the one that ran last",
        "repeat": "which repeat of it, from 1; default: the last that ran",
        "lines": "how many of each log",
        "process": "only of this one: worker-1",
    },
)
@read_only_command
def hosts_logs(  # type: ignore[no-untyped-def]
    c, run="", point="", repeat="", lines="20", process=""
):
    """Print the ends of the logs of a trial's processes, each with its host."""
    from launch.job.logs import files_of, lines_of
    from results.run import job_with_logs, newest_with_logs
    from results.worker_log import process_hosts

    count = parse_int("--lines", lines)
    folder = run_folder(run) if run else newest_with_logs(RUNS)
    name, logs = job_with_logs(folder, point, parse_int("--repeat", repeat) if repeat else None)
    hosts = process_hosts(logs)
    if process and process not in hosts:
        raise LaunchError(
            f"--process: expected one of the job's {len(hosts)} processes, such as "
            f"{next(reversed(hosts), 'worker-0')}, got {quoted(process)}"
        )
    echo(f"# {name.name}, repeat {name.repeat + 1}: {short_path(logs)}")
    damaged = []
    for one in [process] if process else hosts:
        files = " ".join(path.name for path in files_of(logs, one))
        echo("", f"# {hosts[one]} {one}: {files or 'printed nothing'}")
        try:
            echo(*deque(lines_of(logs, one), maxlen=count))
        except OSError as error:
            damaged.append(f"{one}: {brief(error)}")
    if damaged:
        raise StoreError(f"{short_path(logs)}: some logs cannot be read: {'; '.join(damaged[:3])}")


@hosts_task(
    help={
        "json": "print JSON in place of the table",
        "bandwidth": "measure latency and bandwidth between every two hosts: two seconds a pair",
        "gpu": "the hosts have to train on GPUs",
        "data": "shards that the hosts should have: a path there, relative to the checkout",
        "verify": "with --data: read every record of them and compare it with what was packed",
    }
)
def hosts_check(
    c: Any,
    host_options: HostOptions,
    json: bool = False,
    bandwidth: bool = False,
    gpu: bool = False,
    data: str = "",
    verify: bool = False,
) -> None:
    """Look at hosts side by side, or at this machine where none is listed; exit 3: problems."""
    from json import dumps

    from launch.data_shares import described
    from launch.install import own_code
    from launch.preflight.findings import Requirements
    from launch.preflight.table import reported, show
    from launch.setup import reached

    if verify and not data:
        raise LaunchError("--verify: expected --data DIR, found none; name the shards to read")
    wanted = Requirements(
        tree=host_options.tree,
        interface=host_options.interface,
        code=own_code(),
        device="gpu" if gpu else "cpu",
        bandwidth=bandwidth,
    )
    held: list[str] = []
    with reached(host_options) as (hosts, start):
        found = reported(hosts, start, wanted)
        if data and not any(one.problems for one in found):
            held = described(data, [one.host for one in found], start, verify=verify)
    if json:
        echo(*dumps([asdict(one) for one in found], indent=1).splitlines())
    else:
        show(found)
        echo(*held)
    if any(one.problems for one in found):
        raise Exit(code=_PROBLEMS)


@hosts_task(
    help={"wheelhouse": "folder of wheels here, for hosts that reach no package index"},
)
def hosts_install(c: Any, host_options: HostOptions, wheelhouse: str = "") -> None:
    """Put this checkout and its environment on every host; nothing is done where all is there."""
    from launch.install import install
    from launch.setup import reached

    folder = Path(wheelhouse) if wheelhouse else None
    with reached(host_options, required=True) as (hosts, start):
        if install(hosts, start, echo, host_options.tree, folder):
            raise Exit(code=_PROBLEMS)


@hosts_task()
def hosts_stop(c: Any, host_options: HostOptions) -> None:
    """End whatever a master of this program runs on the hosts, or on this machine."""
    from launch.setup import reached
    from launch.stop import stop

    with reached(host_options) as (hosts, start):
        if stop(hosts, start, echo):
            raise Exit(code=_PROBLEMS)
