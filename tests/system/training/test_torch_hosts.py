"""Sweeps that need PyTorch on two hosts, in network namespaces."""

import shutil
import site
import subprocess
import sys
from pathlib import Path

import pytest

from launch.install import code_files
from results.store import read_records
from tests.support.hosts.namespaces import HOSTS
from tests.support.paths import ROOT
from tests.support.programs.commands import FAB

pytestmark = pytest.mark.slow
torch = pytest.importorskip("torch", reason="needs PyTorch: make torch")
TINY = """
network = "tiny"
image_shape = [3, 32, 32]
batch_per_device = 4
repeats = 1
windows = 3
precision = 0.0
devices_per_host = 1
"""
SWEEP = f"""
engine = "torch"
{TINY}
[[points]]
devices = 2
"""
ALL_REDUCE = f"""
{TINY}
[[points]]
comm = "allreduce"
gc_type = ["none", "ternary"]
devices = 2
"""
VERSION = "__version__ = '2.0.0'\ncuda = None\n"


def checkout(home: Path, *lacking: str) -> Path:
    """Make a checkout with PyTorch; return the file of its version.

    `lacking` are beginnings of the names of packages that it has not.
    """
    tree = home / "mxscale"
    for name in code_files(ROOT):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    command = [sys.executable, "-m", "venv", "--without-pip", str(tree / ".venv")]
    subprocess.run(command, check=True)
    (packages,) = tree.glob(".venv/lib/python3*/site-packages")
    (ours,) = [Path(one) for one in site.getsitepackages() if (Path(one) / "torch").is_dir()]
    for one in ours.iterdir():
        if not one.name.startswith((*lacking, "torch-")) and one.name != "torch":
            (packages / one.name).symlink_to(one)
    (packages / "torch").mkdir()
    for one in (ours / "torch").iterdir():
        (packages / "torch" / one.name).symlink_to(one)
    version = packages / "torch" / "version.py"
    text = version.read_text()
    version.unlink()
    version.write_text(text)
    (tree / ".venv" / "lock-stamp").write_text("made")
    return version


def fab(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a task with both hosts."""
    via = f"nsenter --net={folder}/{{host}}.net --uts={folder}/{{host}}.uts "
    via += f"env HOME={folder}/{{host}}"
    return subprocess.run(
        [sys.executable, str(FAB), *words, "--hosts", "n1:1,n2:1", "--via", via],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_hosts_with_pytorch_alone_are_checked_and_train(namespaces: Path) -> None:
    versions = [checkout(namespaces / name, "mxnet", "_mxscale") for name in HOSTS]
    own = versions[0].read_text()
    done = fab(namespaces, "hosts.check")
    assert done.returncode == 0, done.stdout + done.stderr
    done = fab(namespaces, "hosts.check", "--engine", "mxnet,torch")
    assert done.returncode == 3
    # Hosts share a problem that differs in their names only.
    assert f"n1, n2: the Python of {namespaces}/n1/mxscale cannot be used" in done.stdout
    assert "(it has no mxnet). Run 'fab hosts.install --engine mxnet,torch'" in done.stdout

    (namespaces / "sweep.toml").write_text(SWEEP)
    sweep = ["bench.sweep", str(namespaces / "sweep.toml"), "--run", str(namespaces / "run")]
    versions[1].write_text(VERSION)
    done = fab(namespaces, *sweep)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "n2: differs from the controller: PyTorch 2.0.0, the controller has " in done.stderr
    versions[1].write_text(own)
    done = fab(namespaces, *sweep)
    assert done.returncode == 0, done.stdout + done.stderr
    one, two = read_records(namespaces / "run")
    assert {one.status, two.status} == {"ok"}
    ranks = [*one.ranks, *two.ranks]
    assert {rank.host for rank in ranks} == set(HOSTS)
    assert not any("mxnet" in rank.facts for rank in ranks)


def test_all_reduce_needs_the_same_pytorch_on_every_host(namespaces: Path) -> None:
    _, version = (checkout(namespaces / name) for name in HOSTS)
    own, package = version.read_text(), version.parent
    (namespaces / "sweep.toml").write_text(ALL_REDUCE)
    run = namespaces / "run"
    sweep = ["bench.sweep", str(namespaces / "sweep.toml"), "--run", str(run)]

    version.write_text(VERSION)
    done = fab(namespaces, *sweep)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "n2: differs from the controller: PyTorch 2.0.0, the controller has " in done.stderr
    version.write_text(own)
    package.rename(package.with_name("moved"))
    done = fab(namespaces, *sweep)
    assert done.returncode == 3, done.stdout + done.stderr
    assert (
        f"n2: the Python of {namespaces}/n2/mxscale cannot be used (it has no torch)" in done.stderr
    )
    assert "Run 'fab hosts.install --engine mxnet,torch'" in done.stderr
    assert not run.exists()

    package.with_name("moved").rename(package)
    done = fab(namespaces, *sweep)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {record.status for record in read_records(run)} == {"ok"}
    jobs = [record for record in read_records(run) if len(record.ranks) == 2]
    assert sorted(job.trial.training.gc_type for job in jobs) == ["none", "ternary"]
    for record in jobs:
        assert {rank.host for rank in record.ranks} == set(HOSTS)
        assert len({rank.facts["weight_hash"] for rank in record.ranks}) == 1
