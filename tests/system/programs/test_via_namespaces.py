"""A template of --via whose hosts are network namespaces of this machine."""

import subprocess
import sys
from pathlib import Path

import pytest

from results.store import read_records
from tests.support.hosts.cluster_sweeps import FAKE
from tests.support.hosts.namespaces import HOSTS
from tests.support.paths import ROOT
from tests.support.programs.commands import FAB

pytestmark = pytest.mark.slow


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
