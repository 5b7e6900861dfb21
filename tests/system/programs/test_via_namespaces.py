"""A template of --via whose hosts are network namespaces of this machine."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from results.store import read_records
from tests.support.hosts.cluster_sweeps import FAKE
from tests.support.paths import ROOT
from tests.support.programs.commands import FAB

_PROGRAMS = ("unshare", "nsenter", "ip")
_ABSENT = [name for name in _PROGRAMS if shutil.which(name) is None]
_MISSING = "needs root" if os.geteuid() else f"needs {_ABSENT[0]}" if _ABSENT else ""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(_MISSING), reason=_MISSING or "none")]
HOSTS = ("n1", "n2")


def inside(pid: int, *words: str) -> None:
    subprocess.run(["nsenter", f"--target={pid}", "--net", *words], check=True)


@pytest.fixture
def namespaces(tmp_path: Path) -> Iterator[Path]:
    """Two hosts with a link between them; their namespaces are files of this folder."""
    with ExitStack() as stack:
        pids = []
        for name in HOSTS:
            script = f"hostname {name}; echo ready; exec sleep infinity"
            words = ["unshare", "--net", "--uts", "sh", "-c", script]
            holder = stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE))
            stack.callback(holder.kill)
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"ready\n"
            for kind in ("net", "uts"):
                (tmp_path / f"{name}.{kind}").symlink_to(f"/proc/{holder.pid}/ns/{kind}")
            pids.append(holder.pid)
        link = ("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0")
        inside(pids[0], *link, "netns", str(pids[1]))
        for number, pid in enumerate(pids, 1):
            inside(pid, "ip", "address", "add", f"10.9.1.{number}/24", "dev", "eth0")
            inside(pid, "ip", "link", "set", "eth0", "up")
            inside(pid, "ip", "link", "set", "lo", "up")
        yield tmp_path


def test_a_sweep_runs_in_namespaces_that_a_template_enters(namespaces: Path) -> None:
    sweep, run = namespaces / "sweep.toml", namespaces / "run"
    sweep.write_text(FAKE)
    via = f"nsenter --net={namespaces}/{{host}}.net --uts={namespaces}/{{host}}.uts"
    words = ["bench.sweep", str(sweep), "--hosts", "n1:1,n2:1", "--tree", str(ROOT)]
    done = subprocess.run(
        [sys.executable, str(FAB), *words, "--via", via, "--run", str(run)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    records = read_records(run)
    assert {record.status for record in records} == {"ok"}
    assert {rank.host for record in records for rank in record.ranks} == set(HOSTS)
    environment = (run / "environment.json").read_text()
    assert all(f"10.9.1.{number}" in environment for number in (1, 2))


def test_a_script_is_launched_in_namespaces_that_a_template_enters(namespaces: Path) -> None:
    (namespaces / "hosts").write_text("n1\nn2\n")
    via = f"nsenter --net={namespaces}/{{host}}.net --uts={namespaces}/{{host}}.uts"
    words = ["-n", "2", "-H", str(namespaces / "hosts"), "--style", "torch", "--via", via]
    done = subprocess.run(
        [sys.executable, "-m", "launch.launch", *words, "sh", "-c", "uname -n; echo $MASTER_ADDR"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = {line.partition("] ")[2] for line in done.stdout.splitlines()}
    assert said == {"n1", "n2", "10.9.1.1"}
