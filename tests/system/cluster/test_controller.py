"""The controller of a cluster: only one at a time, and it leaves no process."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context
from invoke.exceptions import Exit

import fabfile as _fabfile
from launch.hosts import ROOT
from launch.practice.cluster import Cluster
from tests.support.hosts.cluster_sweeps import fab, host_options
from tests.support.hosts.clusters import empty_within, processes
from tests.support.programs.jobs import until
from tests.support.repeats import slow

fabfile: Any = _fabfile
pytestmark = pytest.mark.cluster

ENDLESS = """
engine = "fake"
network = "tiny"
batch_per_device = 4
kvstore = "dist_sync"
devices = 4
devices_per_host = 1
repeats = 1
windows = 3
fake_seconds = [0.3]
[[points]]
devices = [4]
"""


@contextmanager
def sweeping(practice: Cluster, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a controller whose job runs on all four hosts."""
    path = folder / "endless.toml"
    path.write_text(ENDLESS)
    command = fab(practice, "bench.sweep", str(path), "--run", str(folder / "run"))
    command += ["--fault", "x4:worker-0:hang@1", "--point", "x4", "--devices-per-node", "1"]
    with subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as master:
        try:
            last = practice.nodes[-1].name
            assert until(lambda: "fake_process" in " ".join(processes(practice, last)), 30)
            yield master
        finally:
            master.kill()


def fallback(practice: Cluster) -> None:
    """Restore links that a failed test may have cut."""
    subprocess.run(["ip", "link", "set", practice.link, "up"], check=True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL, *slow(signal.SIGTERM)])
def test_nothing_is_left_ten_seconds_after_a_master_is_ended(
    practice: Cluster, tmp_path: Path, number: int
) -> None:
    with sweeping(practice, tmp_path) as master:
        os.kill(master.pid, number)
        assert empty_within(practice, 10.0)
        master.wait(10)
    assert master.returncode == (-number if number == signal.SIGKILL else 128 + number)


@pytest.mark.slow
def test_nothing_is_left_ten_seconds_after_a_masters_link_is_cut(
    practice: Cluster, tmp_path: Path
) -> None:
    with sweeping(practice, tmp_path):
        try:
            subprocess.run(["ip", "link", "set", practice.link, "down"], check=True)
            assert empty_within(practice, 10.0)
        finally:
            fallback(practice)


def test_a_second_master_is_told_who_has_the_hosts_and_can_end_it(
    practice: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with sweeping(practice, tmp_path) as master:
        hosts, path = host_options(practice), str(tmp_path / "endless.toml")
        with pytest.raises(Exit, match="4 of 4 hosts are not ready") as refused:
            fabfile.bench.bench_sweep.body(Context(), path, run=str(tmp_path / "second"), **hosts)
        assert refused.value.code == 3
        said = f"{capsys.readouterr().err}{refused.value}"
        assert f"another controller uses this host: root on {os.uname().nodename} (process" in said
        assert "'fab hosts.stop'" in said
        assert not (tmp_path / "second" / "records.jsonl").exists()
        with pytest.raises(Exit) as refused:
            fabfile.hosts.hosts_install.body(Context(), **hosts)
        installing = capsys.readouterr().out
        assert refused.value.code == 3
        assert installing.count("another controller uses this host: root on ") == 4
        fabfile.hosts.hosts_stop.body(Context(), **hosts)
        # the others may follow by themselves
        assert ": ended the processes of root on " in capsys.readouterr().out
        assert empty_within(practice, 2.0)
        said, _ = master.communicate(timeout=20)
    assert master.returncode == 130
    assert "lost the agent (ended by 'fab hosts.stop')" in said
    assert said.splitlines()[-1] == "ended by 'fab hosts.stop'; finished points are kept"
