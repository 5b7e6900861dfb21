"""Programs of engine `command` that mpirun starts on two hosts over SSH."""

import shutil
import sys
from pathlib import Path

import pytest

from bench.trial import Trial, make
from launch.practice.cluster import Cluster, inside
from results.record import Record
from tests.support.hosts.clusters import empty_within, pid_on, running_on
from tests.support.paths import ROOT
from tests.support.programs.jobs import disturbed

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs mpirun: openmpi-bin"),
]
BENCHMARK = str(ROOT / "tests" / "support" / "programs" / "benchmark.py")
LOGIN = """
umask 077
mkdir -p ~/.ssh
printf %s "$1" >~/.ssh/id_ed25519
printf %s "$2" >~/.ssh/known_hosts
"""


@pytest.fixture
def trusted(practice: Cluster) -> Cluster:
    """Return the cluster; the user of its first host can log in to the others."""
    files = [(practice.folder / name).read_text() for name in ("id_ed25519", "known_hosts")]
    done = inside(practice, "node01", ["bash", "-lc", LOGIN, "login", *files])
    assert done.returncode == 0, done.stderr
    return practice


def trial(*words: str) -> Trial:
    """Return a job of a process on each of two hosts; both print their throughput."""
    launcher = ["mpirun", "-np", "{devices}", "-H", "{host_slots}", "--tag-output"]
    return make(
        {"engine": "command", "format": "horovod-synthetic", "printers": 2, "network": "tiny"}
        | {"command": [*launcher, sys.executable, BENCHMARK, *words], "batch_per_device": 4}
        | {"devices": 2, "devices_per_host": 1, "precision": 0.0, "windows": 0}
    )


def test_mpirun_reaches_the_second_host_with_the_slots_of_the_sweep(
    trusted: Cluster, tmp_path: Path
) -> None:
    with running_on(trusted, tmp_path, trial("bars")) as updates:
        (record,) = [one for one in updates if isinstance(one, Record)]
    assert (record.status, record.message) == ("ok", "")
    assert (record.ranks[0].seconds, record.ranks[0].images) == ((10.0,) * 6, (80,) * 6)
    assert empty_within(trusted, 0.0)


@pytest.mark.parametrize("words", ["mpirun -np 2", "bench.engines.command.runner"])
def test_a_killed_launcher_or_worker_leaves_no_process_on_the_second_host(
    words: str, trusted: Cluster, tmp_path: Path
) -> None:
    def kill() -> None:
        assert pid_on(trusted, "node02", "endless")
        pid = pid_on(trusted, "node01", words)
        assert inside(trusted, "node01", ["kill", "-KILL", pid]).returncode == 0

    with running_on(trusted, tmp_path, trial("endless")) as updates:
        record, _ = disturbed(updates, kill)
    assert record.status == "failed"
    assert "killed by SIGKILL" in record.message
    assert empty_within(trusted, 10.0)
