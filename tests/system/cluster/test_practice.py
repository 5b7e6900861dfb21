"""A local test cluster has real SSH, addresses and failing links; nothing remains."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from launch.hosts import ROOT
from launch.practice.cluster import cut, down, inside, kill, load, mend, missing, rate, up
from launch.practice.state import Cluster, started
from launch.remote.errors import LaunchError
from tests.support.programs.jobs import until

pytestmark = pytest.mark.cluster


def ssh(cluster: Cluster, host: str, *words: str) -> str:
    """Return a command's output on a host, by the OpenSSH client."""
    done = subprocess.run(
        ["ssh", "-F", cluster.ssh_config, "-o", "BatchMode=yes", host, *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def answers(cluster: Cluster, name: str) -> bool:
    """Return whether a host's sshd accepts a connection within a second."""
    address = next(node.address for node in cluster.nodes if node.name == name)
    try:
        with socket.create_connection((address, 22), timeout=1):
            return True
    except OSError:
        return False


def test_every_host_is_reached_by_ssh_under_its_name(practice: Cluster) -> None:
    names = [node.name for node in practice.nodes]
    assert names == ["node01", "node02", "node03", "node04"]
    assert practice.hostfile.read_text() == "".join(f"{name} slots=2\n" for name in names)
    for name in names:
        assert ssh(practice, name, "hostname; whoami; pwd").split() == [
            name,
            "bench",
            "/home/bench",
        ]


def test_the_masters_interpreter_and_its_libraries_run_on_a_host(practice: Cluster) -> None:
    code = "'import numpy, sys; print(sys.executable, numpy.ones(3).sum())'"
    assert ssh(practice, "node03", sys.executable, "-c", code) == f"{sys.executable} 3.0"


def test_a_host_has_only_its_own_processes(practice: Cluster) -> None:
    here = subprocess.Popen(["sleep", "4711"])
    try:
        for mine in ("node01", "node02"):
            seen = inside(practice, mine, ["ps", "-e", "-o", "args="]).stdout
            assert "launch.practice.host" in seen
            assert "sleep 4711" not in seen
            assert len(seen.splitlines()) < 10
    finally:
        here.kill()
        here.wait()


def test_a_host_has_files_of_its_own_and_cannot_write_to_the_machine(practice: Cluster) -> None:
    for folder in ("/tmp", "/home/bench", "/dev/shm", "/var/tmp"):
        path = f"{folder}/mine-{practice.link}"
        assert inside(practice, "node01", ["touch", path]).returncode == 0
        assert inside(practice, "node01", ["test", "-e", path]).returncode == 0
        assert inside(practice, "node02", ["test", "-e", path]).returncode != 0
        assert not Path(path).exists()
    for shared in (ROOT, Path("/usr"), Path("/var/log")):
        refused = inside(practice, "node01", ["touch", str(shared / "mine")], user="root")
        assert "Read-only file system" in refused.stderr


def test_a_cut_host_is_silent_until_it_is_mended(practice: Cluster) -> None:
    cut(practice, "node03")
    try:
        assert not answers(practice, "node03")
        assert [answers(practice, name) for name in ("node01", "node02", "node04")] == [True] * 3
    finally:
        mend(practice, "node03")
    assert until(lambda: answers(practice, "node03"), 5)


def megabits_per_second(cluster: Cluster, host: str, size: int = 8_000_000) -> tuple[float, float]:
    """Return the throughput from a host to the machine and back."""
    with socket.create_server((cluster.address, 0)) as server:
        server.settimeout(10)
        code = (
            f"import socket\n"
            f"c = socket.create_connection(({cluster.address!r}, {server.getsockname()[1]}))\n"
            f"c.sendall(bytes({size})); c.recv(1)\n"
            f"c.recv({size}, socket.MSG_WAITALL); c.sendall(b'.')\n"
        )
        there = subprocess.Popen(
            ["ssh", "-F", cluster.ssh_config, host, shlex.join([sys.executable, "-c", code])],
            stdin=subprocess.DEVNULL,
        )
        try:
            connection, _ = server.accept()
            connection.settimeout(30)
            with connection, connection.makefile("rb") as stream:
                start = time.perf_counter()
                assert len(stream.read(size)) == size
                sent = time.perf_counter()
                connection.sendall(b"." + bytes(size))
                assert stream.read(1) == b"."
                end = time.perf_counter()
        finally:
            there.kill()
            there.wait()
    return 8e-6 * size / (sent - start), 8e-6 * size / (end - sent)


def test_a_rate_holds_in_both_directions_until_it_is_taken_away(practice: Cluster) -> None:
    rate(practice, "50mbit")
    try:
        limited = megabits_per_second(practice, "node02")
    finally:
        rate(practice, "none")
    assert 10 < min(limited) <= max(limited) < 100
    assert min(megabits_per_second(practice, "node02")) > 100
    with pytest.raises(LaunchError, match="rate: expected a limit such as 200mbit"):
        rate(practice, "fast")


def test_a_killed_host_is_gone_and_the_others_stay(tmp_path: Path, able: None) -> None:
    cluster = up(tmp_path / "c", hosts=2, home="16m")
    try:
        full = inside(cluster, "node02", ["dd", "if=/dev/zero", "of=/home/bench/f", "bs=1M"])
        assert "No space left on device" in full.stderr
        kill(cluster, "node01")
        assert (answers(cluster, "node01"), answers(cluster, "node02")) == (False, True)
        with pytest.raises(LaunchError, match="node01: the host was killed"):
            mend(cluster, "node01")
        with pytest.raises(LaunchError, match="node09: expected a host from node01 to node02"):
            cut(cluster, "node09")
    finally:
        assert down(cluster.folder)
    assert not down(cluster.folder)


def within(namespaces: set[str]) -> list[int]:
    """Return the pids of the processes in one of these pid namespaces."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str((entry / "ns/pid").readlink()) in namespaces:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


UP = "import sys, time, pathlib; from launch.practice.cluster import up\n"
UP += "up(pathlib.Path(sys.argv[1]), hosts=2); print(flush=True); time.sleep(60)"


@pytest.fixture
def owner(tmp_path: Path, able: None) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a process that has a cluster in the folder 'c'."""
    with subprocess.Popen(
        [sys.executable, "-c", UP, str(tmp_path / "c")], cwd=ROOT, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"\n"
        yield process
        process.kill()


@pytest.mark.parametrize("victim", ["owner", "world"])
def test_nothing_is_left_two_seconds_after_a_death(
    victim: str, owner: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    cluster = load(tmp_path / "c")
    namespaces = {
        str(Path(f"/proc/{node.pid}/ns/{kind}").readlink())
        for node in cluster.nodes
        for kind in ("pid", "pid_for_children")
    }
    assert len(within(namespaces)) >= 4
    assert Path("/sys/class/net", cluster.link).exists()
    os.kill(owner.pid if victim == "owner" else cluster.pid, signal.SIGKILL)
    gone = until(
        lambda: not within(namespaces) and not Path("/sys/class/net", cluster.link).exists(), 2
    )
    assert gone
    assert not started(cluster.pid)
    mounts = Path("/proc/self/mounts").read_text()
    assert f"size={2 << 20}k" not in mounts  # a host's /home
    with pytest.raises(LaunchError, match="expected a local test cluster, got none"):
        load(cluster.folder)
    again = up(cluster.folder, hosts=1)
    assert answers(again, "node01")
    assert down(cluster.folder)


def test_a_folder_has_one_cluster_and_keeps_files_of_others(practice: Cluster) -> None:
    with pytest.raises(LaunchError, match="a local test cluster of 4 hosts already runs"):
        up(practice.folder)
    assert json.loads((practice.folder / "state.json").read_text())["pid"] == practice.pid
    other = practice.folder.parent / "other"
    other.mkdir()
    (other / "hostfile").write_text("mine")
    with pytest.raises(LaunchError, match=r"other/hostfile: not of a local test cluster"):
        up(other)
    assert (other / "hostfile").read_text() == "mine"


def test_who_cannot_have_a_cluster_is_told_why(
    practice: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "from launch.practice.start import missing; print(missing())"
    words = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-c", code]
    assert inside(practice, "node01", words).stdout == (
        "local test cluster: expected root. Run the command with sudo\n"
    )
    monkeypatch.setenv("PATH", "/nowhere")
    assert (
        missing() == "local test cluster: programs are missing. "
        "Run: apt-get install util-linux openssh-client"
    )
