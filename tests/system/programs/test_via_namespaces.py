"""Hosts that are network namespaces of this machine, reached by --via."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from results.store import read_records
from tests.support.hosts.cluster_sweeps import FAKE
from tests.support.hosts.marks import MARK, left
from tests.support.hosts.namespaces import HOSTS
from tests.support.paths import ROOT
from tests.support.programs.commands import FAB

pytestmark = pytest.mark.slow
PAGE = (ROOT / "docs" / "how-to" / "dial-in.md").read_text()
TRAINED = """
network = "tiny"
batch_per_device = 4
repeats = 1
windows = 3
[[points]]
kvstore = "dist_sync"
devices = [2]
devices_per_host = 1
"""


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
    assert all(f"192.0.2.{number}" in environment for number in (1, 2))


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
    assert said == {"n1", "n2", "192.0.2.1"}


def section(heading: str, language: str = "bash") -> str:
    """Return the first block of a section of the page."""
    text = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return str(re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)[0])


def entering(folder: Path, host: str) -> list[str]:
    """Return the words that run a command on a host."""
    return ["nsenter", f"--net={folder}/{host}.net", f"--uts={folder}/{host}.uts"]


def script(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@contextmanager
def waiting_sweep(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """Yield the page's sweep on n1, of two devices, once it waits for its hosts."""
    (folder / "sweep.toml").write_text(TRAINED)
    command = (
        section("Start the task").replace(":8", ":1").replace(" seed ", " {folder}/sweep.toml ")
    )
    fab, *words = command.replace("join.pass", "{folder}/join.pass").format(folder=folder).split()
    assert fab == ".venv/bin/fab"
    more = ["--tree", str(ROOT), "--run", str(folder / "run")]
    with subprocess.Popen(
        [*entering(folder, "n1"), sys.executable, str(FAB), *words, *more],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as sweep:
        try:
            assert sweep.stderr is not None
            note = "note: waiting for 2 hosts to join; their pass: join.pass\n"
            assert note in PAGE.replace("`", "\n")
            assert sweep.stderr.readline().replace(f"{folder}/", "") == note
            yield sweep
        finally:
            sweep.terminate()


def dialed(folder: Path, command: str, **environment: str) -> str:
    """Run the sweep with joiners that a command on n1 starts; return its output."""
    command = command.replace("join.pass", f"{folder}/join.pass")
    with waiting_sweep(folder) as sweep:
        done = subprocess.run(
            [*entering(folder, "n1"), "sh", "-c", command],
            cwd=ROOT,
            env={**os.environ, **environment, MARK: str(folder)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        errors = sweep.communicate(timeout=60)[1]
    assert (sweep.returncode, done.returncode) == (0, 0), errors + done.stdout + done.stderr
    assert left(str(folder)) == []
    assert not (folder / "join.pass").exists()
    records = read_records(folder / "run")
    assert {record.status for record in records} == {"ok"}
    assert {rank.host for record in records for rank in record.ranks} == set(HOSTS)
    return done.stdout


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs mpirun: openmpi-bin")
def test_hosts_that_mpirun_starts_dial_in_by_the_pages_command(namespaces: Path) -> None:
    # As its agent in place of ssh: the host, then the command for a shell.
    enter = " ".join(entering(namespaces, "$host"))
    words = namespaces / "words"
    agent = f'echo "$@" >>{words}; host=$1; shift; exec {enter} sh -c "$*"'
    script(namespaces / "agent", agent)
    dialed(
        namespaces,
        section("MPI"),
        OMPI_MCA_plm_rsh_agent=str(namespaces / "agent"),
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
    )
    assert words.read_text().startswith("n2 ")
    assert "mxscale1" not in words.read_text()  # the pass


@pytest.mark.skipif(shutil.which("java") is None, reason="needs java: default-jre-headless")
def test_hosts_that_a_barrier_stage_of_spark_starts_dial_in_by_the_pages_script(
    namespaces: Path,
) -> None:
    pyspark = pytest.importorskip("pyspark", reason="needs PySpark: make spark")
    (namespaces / "join_spark.py").write_text(section("Spark", "python"))
    # Both tasks run on this machine; the last word of a joiner is the name of its host.
    enter = " ".join(entering(namespaces, "$host"))
    joiner = f'for host; do :; done; exec {enter} {sys.executable} "$@"'
    script(namespaces / "bin" / "python3", joiner)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = section("Spark").replace("spark-submit", f"{submit} --master 'local[2]'")
    said = dialed(
        namespaces,
        command.replace("join_spark.py", f"{namespaces}/join_spark.py"),
        PATH=f"{namespaces / 'bin'}{os.pathsep}{os.environ['PATH']}",
        SPARK_LOCAL_IP="127.0.0.1",
        PYSPARK_PYTHON=sys.executable,
        PYSPARK_DRIVER_PYTHON=sys.executable,
    )
    assert [line.split() for line in said.splitlines()[-2:]] == [["n1", "0"], ["n2", "0"]]
