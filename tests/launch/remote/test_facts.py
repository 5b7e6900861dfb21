"""Facts of every host are in environment.json, without private ones."""

import json
import os
import pwd
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from bench.environment import VARIABLES
from bench.sweep import Sweep
from launch.hosts import Login, lease_owner, this_machine
from launch.preflight.check import interpreter_facts
from launch.remote.facts import checkout_facts, machine_facts, variables
from launch.sweep import ClusterSetup, points, sweep
from launch.transport.line import start_local
from results.store import Store
from tests.support.programs.jobs import trial


def test_only_variables_that_a_job_reads_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "MXNET_CPU_WORKER_NTHREADS", "NCCL_DEBUG"):
        monkeypatch.setenv(name, "3")
    monkeypatch.setenv("MY_PASSWORD", "secret")
    found = variables(list(VARIABLES))
    assert found["NCCL_DEBUG"] == "3"
    assert "OMP_NUM_THREADS" in found
    assert "MY_PASSWORD" not in found
    assert variables([]) == {}


def test_a_folder_that_takes_no_file_differs_from_a_full_disk(tmp_path: Path) -> None:
    denied = machine_facts("/sys")
    assert denied["disk_problem"]
    assert denied["disk_denied"]
    found = machine_facts(str(tmp_path))
    assert (found["disk_problem"], found["disk_denied"]) == ("", False)


@pytest.mark.mxnet
def test_a_host_tells_its_libraries_and_their_builds() -> None:
    found = interpreter_facts(this_machine().python, start_local, this_machine())
    assert found["python_problem"] == ""
    assert found["processor"]
    assert found["mxnet"] == "1.9.1"
    assert "DIST_KVSTORE" in found["features"]
    assert set(found["opencv"]) >= {"version", "digest", "JPEG", "Parallel framework"}
    assert len(json.dumps(found["opencv"])) < 1000
    assert found["dist_kvstore"] is True
    assert isinstance(found["variables"], dict)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a checkout whose Python counts its starts, with an MXNet of known features."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("bin/python", "site/mxnet/__init__.py", "site/mxnet/libmxnet.so"):
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    site = tmp_path / "tree" / "site"
    python = tmp_path / "tree" / "bin" / "python"
    python.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = -m ]; then echo \'{"mxnet": "1.9.1"}\'; exit; fi\n'
        f"echo . >> {tmp_path}/starts\n"
        '[ -z "$PYTHONHOME" ] || { echo "no stdlib" >&2; exit 1; }\n'
        f"printf '3.11.7\\t{site}/mxnet/__init__.py\\t\\t\\t{site}\\n'\n"
    )
    python.chmod(0o755)
    return tmp_path / "tree"


def starts(tree: Path) -> int:
    """Return how often its Python was started for facts; it must be usable each time."""
    assert checkout_facts([str(tree)], "bin/python")["python_problem"] == ""
    return len((tree.parent / "starts").read_text().splitlines())


def test_a_python_that_answered_is_not_started_again_until_its_files_change(tree: Path) -> None:
    assert starts(tree) == 1
    assert starts(tree) == 1
    (tree / "site" / "another").mkdir()
    assert starts(tree) == 2
    python = tree / "bin" / "python"
    python.write_text(python.read_text() + "# another\n")
    assert starts(tree) == 3
    assert starts(tree) == 3


def test_a_python_that_a_variable_breaks_is_started_and_found_broken(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert starts(tree) == 1
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    for _ in range(2):
        assert "no stdlib" in checkout_facts([str(tree)], "bin/python")["python_problem"]
    monkeypatch.delenv("PYTHONHOME")
    assert starts(tree) == 3


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"found": 3}', '{"found": ["a"], "files": 1}'])
def test_what_is_kept_of_a_python_may_be_damaged(tree: Path, text: str) -> None:
    assert starts(tree) == 1
    for path in (tree.parent / ".cache" / "mxscale").glob("python-*.json"):
        path.write_text(text)
    assert starts(tree) == 2


@pytest.mark.program
def test_environment_has_each_host_without_what_passes(tmp_path: Path) -> None:
    one = trial(devices=1, devices_per_host=1, kvstore="local")
    what = Sweep(name="t", description="", repeats=1, trials=(one,), text="")
    found = {"processor": "X", "load": 3.0, "user": "me", "features": ["BLAS_OPEN"]}
    where = ClusterSetup(hosts=(this_machine(),), facts={"node01": found, "node02": found})
    store = Store(tmp_path)
    for _ in sweep(what, points(what, where), where, store):
        pass
    store.close()
    hosts = json.loads((tmp_path / "environment.json").read_text())["hosts"]
    assert hosts["node02"] == {"processor": "X", "features": ["BLAS_OPEN"]}
    assert list(hosts) == ["node01", "node02"]


def test_a_user_without_an_account_has_facts_and_a_lease(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers and pods often run as a user ID without an entry in /etc/passwd."""

    def unnamed(uid: int) -> NoReturn:
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.setattr(pwd, "getpwuid", unnamed)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    assert checkout_facts([str(tree)], "bin/python")["python_problem"] == ""
    owner = lease_owner(replace(this_machine(), login=Login(host="node01")))
    assert owner is not None
    assert owner["user"] == str(os.getuid())
