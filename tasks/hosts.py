"""Tasks `hosts.*`: check, install and stop hosts, copy data, print logs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invoke.exceptions import Exit

from bench.errors import brief, error_line, parse_float, parse_int, quoted, unknown
from im2rec_tools.options import OptionHelp
from im2rec_tools.terminal import echo
from im2rec_tools.transfer.urls import is_url
from launch.hosts import Host, HostOptions
from launch.remote.errors import LaunchError
from results.errors import StoreError
from tasks.cli import NO_HOST_OPTIONS, hosts_task, read_only_command, short_path, task
from tasks.report import RUN, RUNS, run_folder

if TYPE_CHECKING:  # slow imports wait until a task runs
    from bench.engines.engine import Engine
    from launch.preflight.disks import DiskReport
    from launch.preflight.findings import HostReport
    from launch.push import PushProgress
    from launch.transport.line import Starter

_PROBLEMS = 3
_ENGINE = OptionHelp("NAMES", "Engines that the hosts need, such as torch or mxnet,torch")
_MOST_IMAGES = 1e9


def show_progress(updates: Iterable[PushProgress]) -> dict[str, PushProgress]:
    """Show the progress of each host in MB; return the last of each."""
    from im2rec_tools.bars import Bars
    from im2rec_tools.progress import Progress

    last: dict[str, PushProgress] = {}
    with Bars() as bars:
        for moved in updates:
            last[moved.host] = moved
            step = f"{moved.host}: {moved.step}"
            if moved.total:
                done, total = moved.done // 10**6, -(-moved.total // 10**6)
                bars.follow(Progress(step=step, done=done, total=total, unit="MB"))
    return last


@hosts_task(
    {
        "source": OptionHelp(
            "SOURCE",
            "Folder of .rec files, or one that contains train/ and val/; or the URL of one, from "
            "which the hosts fetch their shares",
        ),
        "into": OptionHelp(
            "DIR",
            "Folder on the hosts, relative to the checkout",
            empty="its path in this checkout",
        ),
        "shared": OptionHelp("", "Copy nothing; check that all hosts have the same files"),
        "verify": OptionHelp(
            "", "Compare every byte on the hosts with the local files, and copy differing files"
        ),
    },
    example="data/sample_rec --hostfile hosts",
)
def hosts_push_data(  # type: ignore[no-untyped-def]
    c, source, host_options=NO_HOST_OPTIONS, into="", shared=False, verify=False
):
    """Copy each host its share of a data set's shards.

    Copies missing files only; safe to rerun. From a URL, each host fetches its share itself, with
    its own credentials.
    """
    if is_url(source):
        _fetch_data(source, host_options, into, shared=shared or verify)
        return
    from launch.data_shares import target
    from launch.setup import ready_hosts

    folder = target(Path(source), into)
    with ready_hosts(host_options) as (hosts, start):
        serve = _compare_data if shared else _copy_data
        serve(Path(source), hosts, start, folder, verify=verify)


def _fetch_data(source: str, host_options: HostOptions, into: str, *, shared: bool) -> None:
    from im2rec_tools.transfer.urls import parse_urls
    from launch.data_shares import described
    from launch.host_fetch import fetch_on_hosts, host_shares
    from launch.setup import ready_hosts
    from results.integrity.archive import scratch

    if shared or not into:
        problem = "a URL needs --into DIR, and no --shared or --verify"
        fix = "With a shared file system, use 'fab data.fetch' once"
        raise LaunchError(error_line("SOURCE", problem=problem, fix=fix))
    urls = parse_urls("SOURCE", source)
    with ready_hosts(host_options) as (hosts, start), scratch() as folder:
        given = host_shares(urls, len(hosts), folder)
        done: dict[str, str] = {}
        try:
            show_progress(fetch_on_hosts(given, hosts, start, into, done))
        finally:
            echo(*[done[host.name] for host in hosts if host.name in done])
        if given[0].label:
            rec = next(one.name for one in given[0].files if one.name.endswith(".rec"))
            echo(*described(str(Path(into, rec).parent), hosts, start))


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
            error_line(
                into,
                expected=f"the files of {source} on every host",
                got=f"others on {len(wrong)} of {len(hosts)}",
                fix="Omit --shared to copy each host its share",
            )
        )
    read = ", every byte compared" if verify else ""
    echo(
        f"{len(hosts)} host{'s have' if len(hosts) > 1 else ' has'} the same "
        f"{len(pieces)} files in {into}{read}"
    )


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
            echo(f"{host.name}: {into}/{name} differed from the local file; copied again")
        echo(
            f"{host.name}: {one.share.label}, {size / 1e6:.1f} MB in {into}; copied "
            f"{moved.files} of {len(one.pieces)} files, {moved.total / 1e6:.1f} MB"
        )


@task(
    {
        "run": replace(RUN, empty="the newest run with logs"),
        "point": OptionHelp(
            "WORDS",
            "Words of the point's name, such as 'alexnet x32'; if several match, the last that ran",
            empty="the last point without a result, else the last that ran",
        ),
        "repeat": OptionHelp("N", "Repeat of the point, from 1", empty="the last one that ran"),
        "attempt": OptionHelp("N", "Try of the repeat, from 1", empty="the last one"),
        "lines": OptionHelp("N", "Lines per log"),
        "process": OptionHelp("PROCESS", "Only this process, such as worker-1", empty="all"),
    },
    example="--run monday --process worker-1",
    by_place=["run"],
)
@read_only_command
def hosts_logs(  # type: ignore[no-untyped-def]
    c, run="", point="", repeat="", attempt="", lines="20", process=""
):
    """Print the last log lines of a job's processes.

    Each log has a heading with the host and the process.
    """
    from launch.job.logs import files_of, is_started, lines_of
    from results.reader import asked_names
    from results.run import job_with_logs, logs_of_try, newest_with_logs
    from results.worker_log import process_hosts

    count = parse_int("--lines", lines)
    folder = run_folder(run) if run else newest_with_logs(RUNS)
    name, logs = job_with_logs(folder, point, parse_int("--repeat", repeat) if repeat else None)
    if attempt:
        logs = logs_of_try(logs, parse_int("--attempt", attempt))
    hosts = process_hosts(logs)
    if process and process not in hosts:
        raise LaunchError(
            error_line(
                "--process",
                expected=(
                    f"one of the job's {len(hosts)} processes, such as "
                    f"{next(reversed(hosts), 'worker-0')}"
                ),
                got=quoted(process),
            )
        )
    names: dict[str, str] = {}
    with suppress(StoreError):  # points of another version
        names = asked_names(folder)
    shown = names.get(name.key, name.name)
    echo(f"# {shown}, repeat {name.repeat + 1}: {short_path(logs)}")
    damaged = []
    for one in [process] if process else hosts:
        files = [path for path in files_of(logs, one) if path.stat().st_size]
        silent = "printed nothing" if is_started(logs, one) else "never started"
        echo("", f"# {hosts[one]} {one}: {' '.join(path.name for path in files) or silent}")
        try:
            echo(*deque(lines_of(logs, one), maxlen=count))
        except BrokenPipeError:  # of stdout
            raise
        except OSError as error:
            damaged.append(f"{one}: {brief(error)}")
    if damaged:
        raise StoreError(
            error_line(
                short_path(logs), problem=f"some logs are unreadable: {'; '.join(damaged[:3])}"
            )
        )


@hosts_task(
    {
        "json": OptionHelp("", "Print JSON instead of the table"),
        "bandwidth": OptionHelp(
            "", "Measure latency and bandwidth between every pair of hosts (2 s per pair)"
        ),
        "gpu": OptionHelp("", "Require that the hosts can train on GPUs"),
        "engine": replace(_ENGINE, empty="those that all hosts have"),
        "data": OptionHelp(
            "PATH",
            "Shards that the hosts must have, relative to the checkout on the hosts",
            empty="none",
        ),
        "verify": OptionHelp(
            "", "With --data: read every record on the hosts and check its checksum"
        ),
        "feed": OptionHelp(
            "IMAGES",
            "With --data: check that each host's disk delivers this many images per second; drops "
            "the shards from memory and reads for 10 s",
            empty="none",
        ),
    },
    example="--hostfile hosts --bandwidth",
)
def hosts_check(
    c: Any,
    host_options: HostOptions,
    json: bool = False,
    bandwidth: bool = False,
    gpu: bool = False,
    engine: str = "",
    data: str = "",
    verify: bool = False,
    feed: str = "",
) -> None:
    """Check and compare hosts; exit with 3 on problems.

    Checks software, code, devices, clock and network. Without hosts, checks this machine.
    """
    from json import dumps

    from launch.data_shares import described
    from launch.install import own_code
    from launch.preflight.disks import DiskVerdict, disk_lines, disk_reports
    from launch.preflight.findings import Requirements
    from launch.preflight.table import reported, show
    from launch.setup import reached

    needed = _needed(feed)
    if (verify or needed) and not data:
        raise LaunchError(
            error_line(
                "--verify" if verify else "--feed",
                expected="--data PATH",
                got="none",
                fix="Give --data with the shards to read",
            )
        )
    wanted = Requirements(
        tree=host_options.tree,
        interface=host_options.interface,
        code=own_code(),
        engines=_engines(engine) or None,
        device="gpu" if gpu else "cpu",
        bandwidth=bandwidth,
    )
    held: list[str] = []
    disks: list[DiskReport] = []
    with reached(host_options) as (hosts, start):
        found = reported(hosts, start, wanted)
        if data and not any(one.problems for one in found):
            held = described(data, [one.host for one in found], start, verify=verify)
            if needed:
                disks = disk_reports(data, [one.host for one in found], start, needed)
    if json:
        echo(*dumps(_facts(found, disks), indent=1).splitlines())
    else:
        show(found)
        echo(*held, *disk_lines(disks))
    slow = any(one.verdict == DiskVerdict.SLOW for one in disks)
    if slow or any(one.problems for one in found):
        raise Exit(code=_PROBLEMS)


def _engines(names: str) -> tuple[Engine, ...]:
    """Return the engines of --engine; SpecError for an unknown one."""
    from bench.engines.catalog import ENGINES

    known = {name: one for name, one in ENGINES.items() if one.package}
    wanted = [name.strip() for name in names.split(",")] if names else []
    for name in wanted:
        if name not in known:
            raise unknown("--engine", name, known)
    return tuple(known[name] for name in dict.fromkeys(wanted))


def _needed(feed: str) -> float:
    """Return the images per second of --feed; 0 if it is not given."""
    needed = parse_float("--feed", feed) if feed else 0.0
    if feed and not 0 < needed <= _MOST_IMAGES:
        wanted = f"images per second, above 0 and up to {_MOST_IMAGES:g}"
        raise LaunchError(error_line("--feed", expected=wanted, got=quoted(feed)))
    return needed


def _facts(found: Sequence[HostReport], disks: Sequence[DiskReport]) -> list[dict[str, Any]]:
    """Return the hosts' reports as JSON has them, with those of their disks."""
    beside = {
        one.host: {"disk": asdict(one) | {"verdict": one.verdict.name.lower()}} for one in disks
    }
    return [asdict(one) | beside.get(one.host.name, {}) for one in found]


@hosts_task(
    {
        "wheelhouse": OptionHelp(
            "DIR",
            "Folder of wheels on this machine, for hosts without access to a package index",
            empty="none",
        ),
        "engine": replace(_ENGINE, empty="mxnet; hosts keep what they have"),
    },
    example="--hostfile hosts",
)
def hosts_install(
    c: Any, host_options: HostOptions, wheelhouse: str = "", engine: str = ""
) -> None:
    """Install code and Python environment on every host.

    Installs this checkout, its requirements and the engines' packages. Safe to rerun. Exits with 3
    if a host fails.
    """
    from launch.install import install
    from launch.setup import reached

    folder = Path(wheelhouse) if wheelhouse else None
    engines = _engines(engine)
    with reached(host_options, required=True) as (hosts, start):
        trees = [replace(host, tree=host_options.tree) for host in hosts]
        if install(trees, start, echo, folder, engines):
            raise Exit(code=_PROBLEMS)


@hosts_task()
def hosts_stop(c: Any, host_options: HostOptions) -> None:
    """End all your mxscale jobs on the hosts.

    This also ends the sweeps that started them. Without hosts, ends those on this machine. Exits
    with 3 if a host fails.
    """
    from launch.setup import reached
    from launch.stop import stop

    with reached(host_options) as (hosts, start):
        if stop(hosts, start, echo):
            raise Exit(code=_PROBLEMS)


@task(
    {
        "file": OptionHelp("FILE", "JSON of 'aws ec2 describe-instances'; /dev/stdin for a pipe"),
        "slots": OptionHelp("N", "Devices per host", empty="none; give --devices-per-node later"),
        "user": OptionHelp("NAME", "User to log in as, such as ubuntu", empty="none"),
        "public": OptionHelp("", "Use public addresses, to connect from outside the network"),
    },
)
@read_only_command
def hosts_from_ec2(c, file, slots="", user="", public=False):  # type: ignore[no-untyped-def]
    """Print a hosts file of Amazon EC2 instances.

    Lists those that run. Redirect the output to a file: >hosts.
    """
    from launch.ec2 import lines, read
    from launch.hostfile import MOST

    found = read(Path(file), public=public)
    devices = parse_int("--slots", slots, most=MOST) if slots else None
    echo(*lines(found.addresses, user, devices))
    if found.others:
        echo(f"note: {file}: {found.others} instances are not running and not listed", err=True)
