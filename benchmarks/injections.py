"""Inject causes of lost time into real jobs, and count right and wrong verdicts.

Needs root: the hosts are a local test cluster on this machine. Every round runs each injection
once, with a quiet job after every third. Records stay in the folder; a second call runs what is
missing, so the table grows over several calls. Results: docs/explanation/verdicts.md.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from PIL import Image

from bench.events import Event
from bench.sweep import Sweep
from bench.trial import Trial, make
from benchmarks.cluster import check_seconds, local_cluster
from im2rec_tools.formats.recordio import ImageRecord, frame_record
from launch.hosts import ROOT, Host, this_machine
from launch.practice.cluster import Cluster, rate
from launch.sweep import ClusterSetup, identified, sweep
from launch.transport.line import start_local
from launch.transport.ssh import Ssh
from results.errors import StoreError
from results.explain.verdict import Cause, Verdict
from results.run import load
from results.store import Store

FOLDER = ROOT / "results" / "runs" / "injections"
SHARD = "data/large.rec"
_MARK = "MXSCALE_INJECTION"
_CGROUPS = Path("/sys/fs/cgroup")
_PERIOD_MICROSECONDS = 100_000
_EDGE, _IMAGES = 2000, 64
_QUIET_EVERY = 3
_JOB: dict[str, Any] = {
    "kvstore": "dist_sync",
    "devices": 2,
    "devices_per_host": 1,
    "windows": 10,
    "precision": 0.0,
}
# Much computing and few small arrays, so that a quiet job is bound by computing on two cores.
_NETWORK = {"network": "lenet", "image_shape": [3, 28, 28], "num_classes": 10}
_QUIET = _NETWORK | {"batch_per_device": 1024, "windows": 15}


@dataclass(frozen=True, kw_only=True)
class Job:
    """A running job: the cluster of its hosts, and the mark of its processes.

    mark  value of an environment variable that only its processes have
    """

    cluster: Cluster
    mark: str

    def processes(self, role: str) -> dict[int, str]:
        """Return the job's processes of this role: process id and address of its host."""
        found = {}
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                words = path.read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue  # it has ended
            values = dict(word.partition("=")[::2] for word in words)
            if values.get(_MARK) == self.mark and values.get("DMLC_ROLE") == role:
                found[int(path.parent.name)] = values.get("DMLC_NODE_HOST", "")
        return found


Start = Callable[[Job], AbstractContextManager[object]]


@dataclass(frozen=True, kw_only=True)
class Injection:
    """A cause, and the job that it is injected into.

    expected  verdicts that are right
    fields    those of its point, besides the common ones
    before    is entered before the job starts
    during    is entered when its workers are ready
    host      number of the host that the verdict must name, if any
    local     whether the job runs on this machine, without the cluster
    cores     cores of the two hosts
    """

    expected: tuple[Cause, ...]
    fields: Mapping[str, Any] = field(default_factory=dict)
    before: Start = lambda _: nullcontext()
    during: Start = lambda _: nullcontext()
    host: int | None = None
    local: bool = False
    cores: tuple[int, int] = (0, 1)

    def is_right(self, found: Verdict, hosts: Sequence[str]) -> bool:
        """Return whether the verdict names the injected cause, and the host if it has one."""
        slow = found.measurements.slow_rank
        if found.cause is Cause.STRAGGLER and self.host is not None:
            return found.cause in self.expected and bool(slow and slow.host == hosts[self.host])
        return found.cause in self.expected


def limited(text: str) -> Start:
    """Limit the links of all hosts to a rate."""

    @contextmanager
    def start(job: Job) -> Iterator[None]:
        rate(job.cluster, text)
        try:
            yield
        finally:
            rate(job.cluster, "none")

    return start


def throttled(role: str, share: float) -> Start:
    """Limit the CPU time of the last host's process of this role to a share of a core."""

    @contextmanager
    def start(job: Job) -> Iterator[None]:
        last = job.cluster.nodes[-1].address
        pids = [pid for pid, host in job.processes(role).items() if host == last]
        if not pids:
            raise SystemExit(f"{role} on {last}: expected a process, got none")
        folder, settings = _quota(f"mxscale-{job.mark}-{role}", share)
        folder.mkdir()
        try:
            for name, text in settings.items():
                (folder / name).write_text(text)
            for process in pids:
                (folder / "cgroup.procs").write_text(str(process))
            yield
        finally:
            for left in (folder / "cgroup.procs").read_text().split():
                (folder.parent / "cgroup.procs").write_text(left)
            folder.rmdir()

    return start


def _quota(name: str, share: float) -> tuple[Path, dict[str, str]]:
    """Return the control group of a limit, and its files."""
    quota = round(share * _PERIOD_MICROSECONDS)
    if (_CGROUPS / "cpu").is_dir():
        period = {"cpu.cfs_period_us": str(_PERIOD_MICROSECONDS)}
        return _CGROUPS / "cpu" / name, period | {"cpu.cfs_quota_us": str(quota)}
    return _CGROUPS / name, {"cpu.max": f"{quota} {_PERIOD_MICROSECONDS}"}


@contextmanager
def loops(_: Job) -> Iterator[None]:
    """Run a busy loop on every core."""
    with ExitStack() as running:
        for core in sorted(os.sched_getaffinity(0)):
            words = ["taskset", "-c", str(core), sys.executable, "-c", "while True: pass"]
            one = subprocess.Popen(words)
            running.callback(one.wait)
            running.callback(one.kill)
        yield


def both(*starts: Start) -> Start:
    """Inject several causes at once."""

    @contextmanager
    def start(job: Job) -> Iterator[None]:
        with ExitStack() as running:
            for one in starts:
                running.enter_context(one(job))
            yield

    return start


def write_large_images(path: Path) -> None:
    """Write a shard of large photographs, unless it exists."""
    if not path.with_suffix(".idx").exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        chance = np.random.default_rng(0)
        offset, lines = 0, []
        with tempfile.TemporaryDirectory() as scratch, path.open("wb") as file:
            for number in range(_IMAGES):
                coarse = chance.integers(0, 256, (_EDGE // 8, _EDGE // 8, 3), dtype=np.uint8)
                photo = Path(scratch) / "photo.jpg"
                Image.fromarray(coarse).resize((_EDGE, _EDGE)).save(photo, quality=90)
                one = ImageRecord(index=number, labels=(number % 10,), image=photo.read_bytes())
                lines.append(f"{number}\t{offset}\n")
                offset += file.write(frame_record(one))
        path.with_suffix(".idx").write_text("".join(lines))


def _reading(shard: Path) -> dict[str, Any]:
    shape = {"network": "tiny", "image_shape": [3, 224, 224], "num_classes": 10}
    data = {"mode": "real", "data_train": str(shard), "data_nthreads": 1}
    return shape | data | {"kvstore": "local", "devices": 1, "batch_per_device": 8}


def injections(shard: Path) -> dict[str, Injection]:
    """Return the injections by name; `none` is the quiet job between them.

    shard  large images, which `run` writes
    """
    slow = throttled("worker", 0.6)
    # 1 % of a core is the least quota of the kernel; a server needs 3 % at this batch. A window
    # has many of the quota's periods.
    often = _NETWORK | {"batch_per_device": 256, "steps_per_window": 5}
    server = throttled("server", 0.01)
    link = limited("20mbit")
    several = Cause.SEVERAL
    small = {"network": "tiny", "batch_per_device": 1, "windows": 60, "steps_per_window": 50}
    return {
        "none": Injection(expected=(Cause.COMPUTE,), fields=_QUIET),
        "link": Injection(expected=(Cause.LINK,), fields=_QUIET, before=link),
        "server": Injection(expected=(Cause.SERVER,), fields=often, during=server),
        "straggler": Injection(expected=(Cause.STRAGGLER,), fields=_QUIET, during=slow, host=1),
        "cores": Injection(expected=(Cause.CORES,), fields=_QUIET, cores=(0, 0)),
        "input": Injection(expected=(Cause.INPUT,), fields=_reading(shard), local=True),
        "sync": Injection(expected=(Cause.SYNC,), fields=small, local=True),
        "interference": Injection(expected=(Cause.INTERFERENCE,), fields=_QUIET, during=loops),
        "link+straggler": Injection(
            expected=(Cause.LINK, Cause.STRAGGLER, several),
            fields=_QUIET,
            before=link,
            during=slow,
            host=1,
        ),
        "server+straggler": Injection(
            expected=(Cause.SERVER, Cause.STRAGGLER, several),
            fields=often,
            during=both(server, slow),
            host=1,
        ),
    }


def trials_of(one: Injection, mark: str) -> list[Trial]:
    """Return the point on one device alone, unless it is the only one, and the point."""
    point = make(_JOB | dict(one.fields) | {"env": [f"{_MARK}={mark}"]})
    alone = {"kvstore": "local", "devices": 1}
    if one.local:
        point = point.replace(devices_per_host=point.layout.devices)
    base = make(_JOB | dict(one.fields) | {"env": [f"{_MARK}={mark}"]} | alone)
    return [point] if point.layout.devices == 1 else [base, point]


def run(one: Injection, folder: Path, cluster: Cluster, hosts: Sequence[Host]) -> None:
    """Measure what a folder lacks; the injection acts on the last point only."""
    job = Job(cluster=cluster, mark=folder.name)
    trials = trials_of(one, job.mark)
    if shard := trials[-1].data.train:
        write_large_images(Path(shard))
    what = Sweep(name=folder.name, description="", repeats=1, trials=tuple(trials), text="")
    with closing(Ssh(str(cluster.ssh_config))) as ssh, closing(Store(folder)) as store:
        for host in hosts:
            assert host.login is not None
            ssh.connection(host.login)
        placed = [replace(host, cores=(core,)) for host, core in zip(hosts, one.cores, strict=True)]
        where = (
            ClusterSetup(hosts=(this_machine(),), start=start_local)
            if one.local
            else ClusterSetup(hosts=tuple(placed), start=ssh.start)
        )
        wanted = identified([(trial, 0) for trial in trials], where)
        for planned in wanted:
            injected = planned is wanted[-1]
            with ExitStack() as running:
                ready = False
                if injected:
                    running.enter_context(one.before(job))
                for update in sweep(what, wanted, where, store, [planned]):
                    is_ready = isinstance(update, Event) and update.kind == "ready"
                    if is_ready and injected and not ready:
                        ready = True
                        running.enter_context(one.during(job))
                    if isinstance(update, Event) and update.kind == "done":
                        running.close()  # a starved server would not end in time


def verdict_of(folder: Path) -> tuple[Verdict, list[str]] | None:
    """Return the verdict of the injected point and its hosts; None without a result."""
    try:
        found = load(folder)
    except StoreError:
        return None
    row = found.rows[-1]
    if found.missing or row.verdict is None:
        return None
    return row.verdict, list(row.repeats[0].identity.hosts)


def table(known: Mapping[str, Injection], folder: Path) -> Iterator[str]:
    """Yield the table of all runs in the folder."""
    yield "| injected | right verdicts | runs | right | other verdicts | share of the step |"
    yield "|---|---|---|---|---|---|"
    for name, one in known.items():
        runs = [done for path in sorted(folder.glob(f"{name}-*")) if (done := verdict_of(path))]
        right = [found for found, hosts in runs if one.is_right(found, hosts)]
        others = Counter(str(found.cause) for found, hosts in runs if found not in right)
        shares = [found.share for found in right if found.share is not None]
        share = f"{fmean(shares):.0%}" if shares else ""
        wrong = ", ".join(f"{cause} {count}" for cause, count in others.items())
        yield (
            f"| {name} | {', '.join(one.expected)} | {len(runs)} | {len(right)} | {wrong} "
            f"| {share} |"
        )


def order(names: Sequence[str], runs: int) -> Iterator[tuple[str, int]]:
    """Yield every injection once per round, with a quiet job after every third."""
    quiet = 0
    for number in range(runs):
        for place, name in enumerate([one for one in names if one != "none"] or names):
            if name != "none":
                yield name, number
            if "none" in names and place % _QUIET_EVERY == 0:
                yield "none", quiet
                quiet += 1


def main() -> None:
    """Parse the command line, run what is missing, and print the table."""
    parser = argparse.ArgumentParser("python -m benchmarks.injections", description=__doc__)
    parser.add_argument(
        "--runs", metavar="N", type=int, default=10, help="Runs of each injection [%(default)s]"
    )
    parser.add_argument(
        "--only", metavar="NAME", nargs="+", help="Injections to run; none: a quiet job [all]"
    )
    parser.add_argument(
        "--folder", metavar="DIR", type=Path, default=FOLDER, help="Folder of the records"
    )
    given = parser.parse_args()
    known = injections(given.folder / SHARD)
    names = given.only or list(known)
    if unknown := set(names) - set(known):
        parser.error(f"--only: expected some of {', '.join(known)}, got {', '.join(unknown)}")
    missing = [
        (name, folder)
        for name, number in order(names, given.runs)
        if verdict_of(folder := given.folder / f"{name}-{number}") is None
    ]
    if missing:
        with local_cluster(2) as cluster:
            _, hosts = check_seconds(cluster)
            for name, folder in missing:
                run(known[name], folder, cluster, hosts)
                found = verdict_of(folder)
                print(f"{folder.name}: {found[0].cause if found else 'no result'}", flush=True)
    print(*table(known, given.folder), sep="\n")


if __name__ == "__main__":
    main()
