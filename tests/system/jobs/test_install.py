"""Installation on hosts: copied files, created environments, no repeated work."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import launch.install
from bench.engines.engine import Engine
from bench.engines.mxnet import MXNET
from bench.engines.torch import TORCH
from launch.hosts import ROOT, Host, this_machine
from launch.install import code_files, install, requests
from launch.practice.cluster import Cluster, down, up
from launch.push import push
from launch.remote.errors import LaunchError
from launch.remote.facts import checkout_facts
from launch.transport.line import start_local
from tests.support.hosts.host_reports import FIT
from tests.support.repeats import slow

SCRIPT = """echo "made with ${PIP_FIND_LINKS:-an index}${MXSCALE_TORCH:+ and PyTorch}" >&2
echo once >> made
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a small checkout whose environment script is replaced."""
    root = tmp_path / "checkout"
    (root / "tools").mkdir(parents=True)
    (root / "tools" / "environment.sh").write_text(SCRIPT)
    (root / "a b.py").write_text("print()\n")
    (root / "data").mkdir()
    (root / "data" / "x.rec").write_bytes(bytes(100))
    monkeypatch.setattr(launch.install, "ROOT", root)
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    return root


def installed(tmp_path: Path, **how: Any) -> tuple[int, list[str]]:
    said: list[str] = []
    return install([host_at(tmp_path / "there")], start_local, said.append, **how), said


def host_at(tree: Path) -> Host:
    return replace(this_machine(), tree=str(tree))


@pytest.mark.program
def test_code_is_copied_once_and_data_stay(checkout: Path, tmp_path: Path) -> None:
    failed, said = installed(tmp_path)
    assert (failed, len(said)) == (0, 1)
    assert "copied 2 files of code; made with an index" in said[0]
    there = {path.name for path in (tmp_path / "there").rglob("*") if path.is_file()}
    assert {"a b.py", "environment.sh", "made"} <= there
    assert "x.rec" not in there
    (checkout / "a b.py").unlink()
    (checkout / "c.py").write_text("print(1)\n")
    _, said = installed(tmp_path)
    assert "copied 1 files of code" in said[0]
    assert not (tmp_path / "there" / "a b.py").exists()
    _, said = installed(tmp_path)
    assert "code is up to date" in said[0]


@pytest.mark.program
def test_wheels_are_pushed_where_hosts_have_no_index(checkout: Path, tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    with pytest.raises(LaunchError, match=r"expected wheels, got none\. Fill .* pip download"):
        installed(tmp_path, wheelhouse=wheels)
    (wheels / "x-1-py3-none-any.whl").write_bytes(b"x")
    _, said = installed(tmp_path, wheelhouse=wheels)
    assert said[0].endswith(f"made with {tmp_path}/there/.wheels")


@pytest.mark.program
def test_the_engines_that_are_named_are_installed(checkout: Path, tmp_path: Path) -> None:
    assert installed(tmp_path)[1][0].endswith("made with an index")
    assert installed(tmp_path, engines=[TORCH])[1][0].endswith("made with an index and PyTorch")


H100 = {"index": "0", "name": "NVIDIA H100", "compute_cap": "9.0"}
T4 = {"index": "0", "name": "Tesla T4", "compute_cap": "7.5"}


@pytest.mark.parametrize(
    ("facts", "engines", "variables"),
    [
        ({}, [], {}),
        ({}, [MXNET, TORCH], {"MXSCALE_TORCH": "4"}),
        ({"gpus": [T4]}, [], {"MXSCALE_GPU": "1"}),
        ({"gpus": [T4]}, [TORCH], {"MXSCALE_TORCH": "4"}),
        ({"gpus": [T4]}, [MXNET, TORCH], {"MXSCALE_GPU": "1", "MXSCALE_TORCH": "4"}),
        ({"gpus": [H100]}, [TORCH], {"MXSCALE_TORCH": "4"}),
        ({"gpus": [H100], "torch": "2.13.0"}, [], {}),
    ],
)
def test_a_host_gets_what_its_engines_need(
    facts: dict[str, Any], engines: list[Engine], variables: dict[str, str]
) -> None:
    assert requests(FIT | facts, engines) == variables


@pytest.mark.parametrize("engines", [[], [MXNET], [MXNET, TORCH]])
def test_a_gpu_without_code_for_a_wanted_engine_is_refused(engines: list[Engine]) -> None:
    facts = FIT | {"gpus": [H100], **({"torch": "2.13.0"} if engines else {})}
    with pytest.raises(
        LaunchError, match=r"capability 9\.0; MXNet 1\.9\.1's .* Use --engine torch"
    ):
        requests(facts, engines)


def small_wheel(folder: Path) -> None:
    """Make a wheel of a package `small` that pip can install."""
    about = "Metadata-Version: 2.1\nName: small\nVersion: 1\n"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / "small-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("small.py", "")
        wheel.writestr("small-1.dist-info/METADATA", about)
        tags = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr("small-1.dist-info/WHEEL", tags)
        wheel.writestr("small-1.dist-info/RECORD", "")


# As tools/environment.sh, with one package and the interpreter of the tests.
STAMP = """folder=$(dirname "$0")/../.venv
[ "$(cat "$folder/lock-stamp" 2>/dev/null)" = "$(cksum < requirements.lock)" ] && exit 0
mkdir -p "$folder" && install_packages || exit 2
cksum < requirements.lock > "$folder/lock-stamp"
echo ready >&2
"""
PIP = STAMP.replace(
    "install_packages",
    f'"{sys.executable}" -m pip install -q --disable-pip-version-check --no-deps '
    '--target "$folder/site" -r requirements.lock >&2',
)


@pytest.mark.program
@pytest.mark.parametrize("name", ["two  spaces 100%20 #1", *slow("plain", "with a space")])
def test_wheels_serve_in_a_path_with_spaces_and_do_not_stay(
    checkout: Path, tmp_path: Path, name: str
) -> None:
    (checkout / "tools" / "environment.sh").write_text(PIP)
    (checkout / "requirements.lock").write_text("small==1\n")
    small_wheel(tmp_path / "wheels")
    there = tmp_path / name / "tree"
    said: list[str] = []
    wheels = tmp_path / "wheels"
    assert install([host_at(there)], start_local, said.append, wheels) == 0, said
    assert (there / ".venv" / "site" / "small.py").is_file()
    assert said[-1].endswith("ready")
    assert not (there / ".wheels").exists()


@pytest.mark.program
def test_wheels_are_not_pushed_again_to_a_host_that_is_up_to_date(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout / "tools" / "environment.sh").write_text(STAMP.replace("install_packages", "true"))
    (checkout / "requirements.lock").write_text("small==1\n")
    small_wheel(tmp_path / "wheels")
    pushes: list[str] = []

    def counted(pieces: Any, host: Any, start: Any, into: str, **how: Any) -> Any:
        pushes.append(into)
        return push(pieces, host, start, into, **how)

    monkeypatch.setattr(launch.install, "push", counted)
    for expected in (["", ".wheels"], [""]):
        pushes.clear()
        assert installed(tmp_path, wheelhouse=tmp_path / "wheels")[0] == 0
        assert pushes == expected
    (tmp_path / "there" / ".venv" / "lock-stamp").unlink()  # a new environment needs them
    assert installed(tmp_path, wheelhouse=tmp_path / "wheels")[0] == 0
    assert pushes[-1] == ".wheels"
    assert not (tmp_path / "there" / ".wheels").exists()


@pytest.mark.program
def test_wheels_do_not_stay_if_the_environment_cannot_be_made(
    checkout: Path, tmp_path: Path
) -> None:
    (checkout / "tools" / "environment.sh").write_text(PIP)
    (checkout / "requirements.lock").write_text("other==1\n")
    small_wheel(tmp_path / "wheels")
    failed, said = installed(tmp_path, wheelhouse=tmp_path / "wheels")
    assert failed == 1
    assert "ERROR: No matching distribution found for other==1" in said[0]
    assert not (tmp_path / "there" / ".wheels").exists()


@pytest.mark.program
def test_a_host_whose_environment_cannot_be_made_is_told(checkout: Path, tmp_path: Path) -> None:
    script = "echo hm >&2; echo ERROR: no such wheel >&2; echo pip failed >&2; exit 2\n"
    (checkout / "tools" / "environment.sh").write_text(script)
    failed, said = installed(tmp_path)
    assert failed == 1
    why = "the environment script failed: ERROR: no such wheel | pip failed. A host without"
    assert f"{why} a package index needs --wheelhouse" in said[0]


def test_a_tree_whose_environment_is_half_made_hides_no_whole_one(tmp_path: Path) -> None:
    half, whole = tmp_path / "half", tmp_path / "whole"
    for tree in (half, whole):
        (tree / ".venv" / "bin").mkdir(parents=True)
        (tree / ".venv" / "bin" / "python").symlink_to(sys.executable)
    trees = [str(half), str(whole)]
    assert checkout_facts(trees, ".venv/bin/python")["tree"] == str(half)
    (whole / ".venv" / "lock-stamp").write_text("made")
    assert checkout_facts(trees, ".venv/bin/python")["tree"] == str(whole)


def test_code_is_what_git_would_keep() -> None:
    names = set(code_files(ROOT))
    assert {"fabfile.py", "requirements.lock", "launch/remote/agent.py"} <= names
    assert not any(name.startswith(("results/runs/", ".venv", "data/")) for name in names)


@pytest.fixture
def roomy(able: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return two hosts with room for an environment each."""
    cluster = up(tmp_path_factory.mktemp("practice") / "roomy", hosts=2, slots=1, home="6g")
    yield cluster
    down(cluster.folder)


@pytest.mark.slow
@pytest.mark.cluster
def test_hosts_without_an_index_train_with_pushed_wheels(roomy: Cluster, tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
    download += ["--only-binary", ":all:", "-d", str(wheels), "-r", str(ROOT / "requirements.lock")]
    subprocess.run(download, check=True, env={**os.environ, "PIP_NO_CACHE_DIR": "1"})
    words = ("--hostfile", str(tmp_path / "hosts"), "--tree", "~/installed")
    (tmp_path / "hosts").write_text("node01 slots=1\nnode02 slots=1\n")
    config = ["--ssh-config", str(roomy.ssh_config)]
    command = [str(ROOT / ".venv" / "bin" / "fab"), "hosts.install", *words, *config]
    for expected in ("files of code", "code is up to date"):
        done = subprocess.run(
            [*command, "--wheelhouse", str(wheels)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        assert done.stdout.count(expected) == 2
    sweep = [command[0], "bench.sweep", "smoke", *words, *config, "--run", str(tmp_path / "run")]
    done = subprocess.run(sweep, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def tracked(checkout: Path) -> Path:
    """Make the small checkout a repository that tracks its script and one module."""
    (checkout / ".gitignore").write_text("data/\n")
    for words in (["init", "-q"], ["add", "tools", "a b.py", ".gitignore"]):
        subprocess.run(["git", "-C", str(checkout), *words], check=True, timeout=60)
    return checkout


@pytest.mark.program
def test_only_what_git_tracks_is_sent_and_the_rest_is_named(tracked: Path, tmp_path: Path) -> None:
    (tracked / ".env").write_text("API_KEY=s3cret")
    (tracked / "hosts").write_text("node01")
    failed, said = installed(tmp_path)
    assert failed == 0, said
    assert said[0] == "skipped files that git does not track: .env, hosts"
    there = {path.name for path in (tmp_path / "there").rglob("*") if path.is_file()}
    assert {"a b.py", "environment.sh"} <= there
    assert not {".env", "hosts"} & there


def test_a_link_out_of_the_checkout_is_refused(tracked: Path, tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "id").write_text("s3cret")
    (tracked / "inside").symlink_to("a b.py")
    (tracked / "way").symlink_to("far")
    (tracked / "far").symlink_to(tmp_path / "private" / "id")
    for names in (["inside"], ["way"]):
        subprocess.run(["git", "-C", str(tracked), "add", *names], check=True, timeout=60)
        if names == ["inside"]:
            assert "inside" in code_files(tracked)
    with pytest.raises(LaunchError, match="way: expected a link within the checkout"):
        code_files(tracked)


def test_a_tracked_folder_that_became_a_link_out_is_refused(tracked: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "environment.sh").write_text("s3cret")
    (tracked / "tools" / "environment.sh").unlink()
    (tracked / "tools").rmdir()
    (tracked / "tools").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LaunchError, match="leads out of it"):
        code_files(tracked)


def test_without_git_files_of_variables_are_left_out(checkout: Path) -> None:
    (checkout / ".env").write_text("API_KEY=s3cret")
    assert code_files(checkout) == ["a b.py", "tools/environment.sh"]
