"""Every command of the README does what it says, in a copy of the checkout."""

import re
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from bench.sweep import load_sweep
from tests.support.paths import ROOT
from tests.support.programs.commands import fab
from tests.support.sources import copied


def commands(page: str) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


COMMANDS = commands("README.md")
# What needs hosts is tried on practice hosts: tests/system/docs/test_cluster.py.
HERE = [command for command in COMMANDS if not re.search(r"--hostfile hosts\b(?!\.)", command)]


def test_continuous_integration_runs_the_make_commands() -> None:
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    made = [command for command in COMMANDS if command.startswith("make ")]
    assert made == ["make demo", "make test"]
    assert set(made) <= set(script)


Done = dict[str, subprocess.CompletedProcess[str]]


LESS = {
    "bench/sweeps/seed.toml": {'device = "gpu"': 'repeats = 1\ndevice = "gpu"'}
    | {'"1..16"': "[1, 16]", '"32..256"': "[32]"},
    "bench/sweeps/smoke.toml": {"windows = 10": "windows = 3", "[1, 2]": "[1]"}
    | {"steps_per_window = 20": "steps_per_window = 2\nservers_per_host = 1"},
    "tasks/bench.py": {'batch="32", nthreads=""': 'batch="4", nthreads="1"'}
    | {'windows="10"': 'windows="1"'},
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy that measures few points, once, and little: how many there are changes no command."""
    place = tmp_path_factory.mktemp("readme") / "checkout"
    copied(place)
    for name, changes in LESS.items():
        text = (place / name).read_text()
        for old, new in changes.items():
            assert old in text, f"{name}: {old}"
            text = text.replace(old, new)
        (place / name).write_text(text)
    return place


@pytest.fixture(scope="module")
def done(checkout: Path) -> Done:
    """How every command ended that needs no other hosts, in the order of the page."""
    found = {}
    for command in HERE:
        if command.startswith("make "):
            continue
        found[command] = subprocess.run(
            ["sh", "-c", command],
            cwd=checkout,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if command.startswith("cp "):  # the sweep that smoke has trained: a rehearsal is enough
            copy = checkout / command.split()[-1]
            copy.write_text('engine = "fake"\n' + copy.read_text())
    return found


@pytest.mark.mxnet
def test_every_other_command_runs_as_it_stands(checkout: Path, done: Done) -> None:
    assert len(done) > 8
    for command, ended in done.items():
        # 6 on a busy machine: not steady, but measured
        allowed = (0, 6) if " bench." in command or " report." in command else (0,)
        assert ended.returncode in allowed, (
            f"{command}\n{ended.stdout[-2000:]}\n{ended.stderr[-2000:]}"
        )
        assert ended.stdout or command.startswith(("cp ", ".venv/bin/fab data.")), command
    runs = {path.parent.name for path in checkout.glob("results/runs/*/report")}
    assert {"mine", "rehearsal"} < runs


@pytest.mark.mxnet
def test_smoke_trains_with_and_without_servers(done: Done) -> None:
    shown = done[".venv/bin/fab smoke"].stdout
    assert sum(shown.count(f" {one} ") for one in ("ok", "unstable")) == 2


def check_study(report: Path, shown: str, points: int, speedups: dict[str, float]) -> None:
    """Every point was played, and the speed-ups of the largest of each network are published."""
    table = pd.read_csv(report / "results.csv")
    assert len(table) == points
    assert set(table["status"]) == {"ok"}
    most = table[table["devices"] == table["devices"].max()].set_index("network")
    found = {name: round(value, 1) for name, value in most["speedup_device"].items()}
    assert found == speedups
    assert (most["hosts"] == most["devices"] / 16).all()
    assert "REHEARSAL" in shown
    assert all(str(value) in shown for value in speedups.values())
    assert (report / "report.md").read_text().startswith("# REHEARSAL rehearsal\n")
    assert "REHEARSAL, not measured" in (report / "scaling.svg").read_text()


@pytest.mark.mxnet
def test_the_study_is_rehearsed_and_drawn(checkout: Path, done: Done) -> None:
    (shown,) = (ended.stdout for command, ended in done.items() if "bench.sweep seed" in command)
    speedups = {"alexnet": 17.4, "inception-v3": 29.0, "resnet-152": 28.6}
    check_study(checkout / "results" / "runs" / "rehearsal" / "report", shown, 9, speedups)


@pytest.mark.slow
@pytest.mark.program
def test_the_whole_study_is_rehearsed_and_drawn(tmp_path: Path) -> None:
    """Up to 33 processes for each of its 27 points."""
    run = tmp_path / "rehearsal"
    words = ("bench.sweep", "seed", "--engine", "fake", "--repeats", "1", "--run", str(run))
    done = fab(*words, timeout=600)
    assert done.returncode == 0, done.stderr
    speedups = {"alexnet": 135.5, "inception-v3": 219.1, "resnet-152": 222.6}
    check_study(run / "report", done.stdout, 27, speedups)


@pytest.mark.mxnet
def test_the_fault_of_the_docs_is_seen_and_mended(checkout: Path) -> None:
    smoke = checkout / "bench" / "sweeps" / "smoke.toml"
    smoke.write_text(smoke.read_text().replace("devices = [1]", "devices = [2]"))
    codes = []
    for command in commands("docs/faults.md"):
        done = subprocess.run(command, shell=True, cwd=checkout, capture_output=True, check=False)  # noqa: S602
        codes.append(done.returncode)
    assert codes == [5, 0]


def test_what_the_readme_links_to_is_there() -> None:
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_sweeps_in_the_docs_load(tmp_path: Path) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "data.md").read_text(), re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        (tmp_path / "doc.toml").write_text(block)
        assert load_sweep(str(tmp_path / "doc.toml")).trials
