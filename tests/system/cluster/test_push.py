"""Files to hosts over SSH: a local test cluster, with cut and slow links."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context

import fabfile as _fabfile
from launch.hosts import ROOT, Host, Login
from launch.practice.cluster import cut, inside, mend, rate
from launch.practice.state import Cluster
from launch.push import push, side_by_side
from launch.remote.errors import LaunchError
from launch.transport.ssh import Ssh
from tests.support.data.trees import made, tree
from tests.support.hosts.cluster_sweeps import host_options
from tests.support.hosts.pushes import MB, tree_of, written
from tests.support.programs.commands import refusal
from tests.support.programs.jobs import until

fabfile: Any = _fabfile
pytestmark = pytest.mark.cluster


@pytest.fixture
def ssh(practice: Cluster) -> Iterator[Ssh]:
    made = Ssh(str(practice.ssh_config))
    yield made
    made.close()


def hosts(cluster: Cluster) -> list[Host]:
    names = [node.name for node in cluster.nodes]
    return [Host(name=n, address="", cpus=1, gpus=0, login=Login.read(n)) for n in names]


def output(cluster: Cluster, name: str, command: str) -> str:
    return inside(cluster, name, ["sh", "-c", f"cd /home/bench && {command}"]).stdout


def fab(*words: object) -> tuple[int, list[str], str]:
    """Return exit code, lines and stderr of a task."""
    done = subprocess.run(
        [Path(sys.executable).parent / "fab", *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_names_of_any_bytes_reach_every_host(practice: Cluster, ssh: Ssh, tmp_path: Path) -> None:
    names = ["a b", 'it\'s "so"', "line\nend", os.fsdecode(b"\xff\xfe"), "dépôt/ü", "$HOME"]
    for name in names:
        written(tmp_path / name, os.fsencode(name), 0o755)
    for _ in range(2):
        pushes = [push(tree_of(tmp_path), one, ssh.start, "any") for one in hosts(practice)]
        last = list(side_by_side(pushes))[-1]
    assert last.total == 0
    for host in hosts(practice):
        command = "cd any && find . -name .mxscale-pushed -o -type f -perm 755 -print0 | sort -z"
        found = output(practice, host.name, f"{command} | od -An -tx1")
        wanted = b"".join(sorted(b"./" + os.fsencode(name) + b"\0" for name in names))
        assert bytes.fromhex("".join(found.split())) == wanted


@pytest.mark.slow
def test_a_link_that_is_cut_in_mid_file_ends_both_sides_and_the_push_goes_on(
    practice: Cluster, ssh: Ssh, tmp_path: Path
) -> None:
    host = hosts(practice)[1]
    written(tmp_path / "a.rec", os.urandom(48 * MB))
    receivers = "ps -e -o args= | grep -c '[_]_import__'"
    rate(practice, "100mbit")
    try:
        pushing = push(tree_of(tmp_path), host, ssh.start, "cut")
        while next(pushing).done < 16 * MB:
            pass
        assert output(practice, host.name, receivers) == "1\n"
        cut(practice, host.name)
        began = time.monotonic()
        with pytest.raises(
            LaunchError, match=r"node02: .*(connection was lost|no message for 15 s)\. Run the same"
        ):
            list(pushing)
        assert time.monotonic() - began < 25
        assert until(lambda: output(practice, host.name, receivers) == "0\n", 20)
    finally:
        mend(practice, host.name)
        rate(practice, "none")
    ssh.close()
    last = list(push(tree_of(tmp_path), host, ssh.start, "cut"))[-1]
    assert 16 * MB < last.total < 40 * MB
    sums = output(practice, host.name, "cksum < cut/a.rec")
    data = (tmp_path / "a.rec").read_bytes()
    assert (
        sums
        == subprocess.run(["cksum"], input=data, capture_output=True, check=True).stdout.decode()
    )


def test_a_task_gives_each_host_its_share(
    practice: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tree(tmp_path / "t", {"cat": 8}))
    listed, data = tmp_path / "hosts", str(tmp_path / "t_rec")
    listed.write_text("node01\nnode02\n")
    how = ("--hostfile", listed, "--ssh-config", practice.ssh_config, "--into", "/home/bench/s")
    code, said, error = fab("hosts.push-data", data, *how)
    assert (code, [line.split(",")[0] for line in said]) == (
        0,
        ["node01: share 1 of 2", "node02: share 2 of 2"],
    ), error
    assert [output(practice, n, "ls s/train/*.rec") for n in ("node01", "node02")] == [
        "s/train/train_0.rec\n",
        "s/train/train_1.rec\n",
    ]
    options = {"hostfile": str(listed), "ssh_config": str(practice.ssh_config)}
    options["into"] = "/home/bench/s"
    fabfile.hosts.hosts_push_data.body(Context(), data, **options)
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2
    assert all("copied 0 of" in line and line.endswith("files, 0.0 MB") for line in said), said
    code, error = refusal(fabfile.hosts.hosts_push_data, data, shared=True, **options)
    said = capsys.readouterr().out.splitlines()
    assert code == 2
    assert said[0].startswith("node01: /home/bench/s/train/train_1.rec is missing")
    assert error.startswith("error: /home/bench/s")


def test_a_host_without_room_is_said_before_anything_is_copied(
    practice: Cluster, ssh: Ssh, tmp_path: Path
) -> None:
    with (tmp_path / "a.rec").open("wb") as file:
        file.truncate(50 << 30)
    with pytest.raises(
        LaunchError, match=r"node01: /home/bench/big: expected 53687.1 MB of free disk space, got"
    ):
        list(push(tree_of(tmp_path), hosts(practice)[0], ssh.start, "big"))


def test_a_push_has_its_hosts_and_can_be_ended(
    practice: Cluster, ssh: Ssh, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path / "large", bytes(30 * MB), 0o644)
    host = hosts(practice)[0]
    rate(practice, "20mbit")
    try:
        pushing = push(tree_of(tmp_path), host, ssh.start, "held")
        assert any(moved.step == "copying" and moved.done for moved in pushing)
        fabfile.hosts.hosts_stop.body(Context(), **host_options(practice))
        said = capsys.readouterr().out.splitlines()
        with pytest.raises(LaunchError, match=r"node01: .* Run the same command again"):
            list(pushing)
    finally:
        rate(practice, "none")
    assert said[1] == "node02: no mxscale process runs on this host"
    assert said[0].startswith("node01: ended the processes of root on ")
    assert output(practice, "node01", "ls held") == ""
