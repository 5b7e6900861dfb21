"""What every host is stands in environment.json, and nothing of it that is nobody's business."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.environment import VARIABLES
from bench.sweep import Sweep
from launch.builds import look
from launch.hosts import ROOT, this_machine
from launch.machine import variables
from launch.sweep import Where, points, sweep
from launch.transport import here
from results.store import Store
from tests.jobs import trial


def test_only_variables_that_a_job_reads_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "MXNET_CPU_WORKER_NTHREADS", "NCCL_DEBUG"):
        monkeypatch.setenv(name, "3")
    monkeypatch.setenv("MY_PASSWORD", "secret")
    found = variables(list(VARIABLES))
    assert found["NCCL_DEBUG"] == "3"
    assert "OMP_NUM_THREADS" in found
    assert "MY_PASSWORD" not in found
    assert variables([]) == {}


@pytest.mark.mxnet
def test_a_host_tells_its_libraries_and_their_builds() -> None:
    found = look(this_machine().python, here, this_machine())
    assert found["python_problem"] == ""
    assert found["processor"]
    assert found["mxnet"] == "1.9.1"
    assert "DIST_KVSTORE" in found["features"]
    assert set(found["opencv"]) >= {"version", "digest", "JPEG", "Parallel framework"}
    assert len(json.dumps(found["opencv"])) < 1000
    assert isinstance(found["variables"], dict)


@pytest.mark.mxnet
def test_the_libraries_are_one_line_of_json() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.libraries"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["dist_kvstore"] is True


@pytest.mark.program
def test_environment_has_each_host_without_what_passes(tmp_path: Path) -> None:
    one = trial(devices=1, devices_per_host=1, kvstore="local")
    what = Sweep(name="t", description="", repeats=1, trials=(one,), text="")
    found = {"processor": "X", "load": 3.0, "user": "me", "features": ["BLAS_OPEN"]}
    where = Where(hosts=(this_machine(),), facts={"node01": found, "node02": found})
    store = Store(tmp_path)
    for _ in sweep(what, points(what, where), where, store):
        pass
    store.close()
    hosts = json.loads((tmp_path / "environment.json").read_text())["hosts"]
    assert hosts["node02"] == {"processor": "X", "features": ["BLAS_OPEN"]}
    assert list(hosts) == ["node01", "node02"]
