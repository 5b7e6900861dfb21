"""Measure the time to check a cluster and to start a job.

Needs root: the hosts are a local test cluster. They share this machine's cores, so computation
takes longer than on real hosts. Results: docs/explanation/benchmarks.md.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from bench.events import Event
from bench.sweep import Sweep
from bench.trial import make
from launch.hosts import ROOT, Host, Login, rehearse
from launch.practice.cluster import Cluster, down, inside, up
from launch.preflight.check import examine
from launch.preflight.findings import Requirements
from launch.sweep import ClusterSetup, points, sweep
from launch.transport.ssh import Ssh
from results.store import Store


@contextmanager
def local_cluster(hosts: int) -> Iterator[Cluster]:
    """Run a local test cluster, and remove it at the end."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = up(Path(folder) / "cluster", hosts=hosts)
        try:
            yield cluster
        finally:
            down(cluster.folder)


def unchecked_hosts(cluster: Cluster) -> list[Host]:
    """Return the hosts of a cluster, before any check."""
    return [
        Host(name=node.name, address="", cpus=1, gpus=0, login=Login(host=node.name))
        for node in cluster.nodes
    ]


def check_seconds(cluster: Cluster) -> tuple[float, list[Host]]:
    """Return the seconds to connect to all hosts and check them, and the hosts."""
    began = time.perf_counter()
    with closing(Ssh(str(cluster.ssh_config))) as ssh:
        found = examine(unchecked_hosts(cluster), ssh.start, Requirements())
    seconds = time.perf_counter() - began
    for one in found:
        if one.problems:
            raise SystemExit(f"{one.host.name}: {one.problems[0]}")
    return seconds, [one.host for one in found]


def import_seconds(cluster: Cluster) -> float:
    """Return the seconds to import MXNet at once in as many processes as a job has."""
    code = "from bench.training.mxnet_shim import mx"
    command = ["env", f"PYTHONPATH={ROOT}", "OMP_NUM_THREADS=1", sys.executable, "-c", code]
    names = [node.name for node in cluster.nodes]
    everywhere = [names[0], *names, *names]
    began = time.perf_counter()
    with ThreadPoolExecutor(len(everywhere)) as pool:
        done = list(pool.map(lambda name: inside(cluster, name, command), everywhere))
    if any(one.returncode for one in done):
        raise SystemExit(done[0].stderr)
    return time.perf_counter() - began


def start_seconds(cluster: Cluster, hosts: list[Host], folder: Path) -> float:
    """Return the seconds from the request of a dist_sync job to its first window."""
    fields = {"network": "tiny", "batch_per_device": 4, "kvstore": "dist_sync", "windows": 2}
    trial = make(fields | {"devices": len(hosts), "devices_per_host": 1})
    what = Sweep(name="start", description="", repeats=1, trials=(trial,), text="")
    with closing(Ssh(str(cluster.ssh_config))) as ssh:
        for host in hosts:
            assert host.login is not None
            ssh.connection(host.login)
        where = ClusterSetup(
            hosts=tuple(replace(host, cores=()) for host in hosts), start=ssh.start
        )
        with closing(Store(folder)) as store:
            wanted = points(what, where)
            began = time.perf_counter()
            with closing(sweep(what, wanted, where, store)) as updates:
                for update in updates:
                    if isinstance(update, Event) and update.kind == "window":
                        return time.perf_counter() - began
    raise SystemExit(f"{folder}: expected a window of the job, got none")


def controller_cost(agents: int, folder: Path) -> tuple[float, float]:
    """Return the CPU share (1 = one core) and peak bytes of a controller.

    Each of its agents has one rank of the simulated engine.
    """
    fields = {"engine": "fake", "network": "tiny", "batch_per_device": 4, "kvstore": "dist_sync"}
    layout = {"devices": agents, "devices_per_host": 1, "server_hosts": 0, "windows": 20}
    trial = make(fields | layout | {"fake_seconds": [1.0], "env": ["MXSCALE_REAL_TIME=1"]})
    what = Sweep(name="watch", description="", repeats=1, trials=(trial,), text="")
    where = ClusterSetup(hosts=rehearse(agents, 1))
    with closing(Store(folder)) as store:
        began = (0.0, 0.0)
        for update in sweep(what, points(what, where), where, store):
            if isinstance(update, Event) and update.kind == "window" and not began[0]:
                began = (time.perf_counter(), time.process_time())
    wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return cpu / wall, int(peak) * 1024


def main() -> None:
    """Parse the command line, measure and print the result."""
    parser = argparse.ArgumentParser("python -m benchmarks.cluster", description=__doc__)
    for name, default, text in (
        ("hosts", 16, "Hosts to check"),
        ("job-hosts", 4, "Hosts of the job"),
        ("agents", 64, "Agents of the controller whose CPU share is measured"),
        ("repeats", 3, "Repeats; medians are printed"),
    ):
        parser.add_argument(
            f"--{name}", metavar="N", type=int, default=default, help=f"{text} [%(default)s]"
        )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        share, memory = controller_cost(given.agents, Path(folder) / "watch")
    print(f"controller of {given.agents} agents: {share:.1%} of a core, {memory / 1e6:.0f} MB")
    with local_cluster(given.hosts) as cluster:
        first, _ = check_seconds(cluster)
        rest = [check_seconds(cluster)[0] for _ in range(given.repeats)]
    print(
        f"check of {given.hosts} hosts: {statistics.median(rest):.2f} s; first check {first:.1f} s"
    )
    with local_cluster(given.job_hosts) as cluster, tempfile.TemporaryDirectory() as folder:
        _, hosts = check_seconds(cluster)
        pairs = [
            (import_seconds(cluster), start_seconds(cluster, hosts, Path(folder) / str(n)))
            for n in range(given.repeats)
        ]
    middle = [statistics.median(one) for one in zip(*pairs, strict=True)]
    print(
        f"job on {given.job_hosts} hosts: first window {middle[1]:.1f} s after the request; "
        f"import of MXNet in as many processes: {middle[0]:.1f} s; "
        f"difference {statistics.median(start - load for load, start in pairs):+.1f} s"
    )


if __name__ == "__main__":
    if subprocess.run(["id", "-u"], capture_output=True, check=True).stdout.strip() != b"0":
        sys.exit(
            "benchmarks.cluster: expected root, got another user. "
            "Run 'sudo .venv/bin/python -m benchmarks.cluster'"
        )
    main()
