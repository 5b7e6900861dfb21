"""Sixteen hosts: checked quickly, used completely, left clean in every case."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from launch.hosts import ROOT
from launch.practice.cluster import Cluster, down, inside, up
from tests.support.hosts.cluster_sweeps import FAKE, fab, swept
from tests.support.hosts.clusters import looked_at, processes

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def sixteen(able: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = up(tmp_path_factory.mktemp("practice") / "sixteen", hosts=16, slots=1)
    yield cluster
    down(cluster.folder)


def test_sixteen_hosts_are_looked_at_and_used(sixteen: Cluster, tmp_path: Path) -> None:
    found = looked_at(sixteen)
    assert [one.problems for one in found.values()] == [()] * 16
    sweep = tmp_path / "fake.toml"
    sweep.write_text(FAKE)
    done, records = swept(sixteen, tmp_path, str(sweep))
    assert done.returncode == 0, done.stderr
    assert [len(one["ranks"]) for one in records] == [1, 2, 4, 8, 16]


def left(cluster: Cluster) -> list[str]:
    """Return mxscale's processes on all hosts."""
    with ThreadPoolExecutor(4) as pool:
        return [
            line
            for lines in pool.map(lambda node: processes(cluster, node.name), cluster.nodes)
            for line in lines
        ]


@pytest.mark.parametrize("seed", range(50))
def test_nothing_is_left_after_an_interrupt_at_any_moment(
    sixteen: Cluster, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    sweep = tmp_path / "fake.toml"
    sweep.write_text(FAKE)
    command = fab(sixteen, "bench.sweep", str(sweep), "--run", str(tmp_path / "run"))
    command += ["--fault", "x16:worker-0:hang@1"]
    number = chance.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as master:
        time.sleep(chance.uniform(0.2, 9.0))
        os.kill(master.pid, number)
        deadline = time.monotonic() + 10.0
        while (lines := left(sixteen)) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert lines == []
        master.wait(10)
    assert inside(sixteen, "node01", ["true"]).returncode == 0
