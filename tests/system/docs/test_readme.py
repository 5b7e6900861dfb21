"""Every command of the README does what it says, in a copy of the checkout."""

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from bench.sweep import load_sweep
from tests.support.paths import ROOT
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


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy whose sweeps measure once, and little: how often they do changes no command."""
    place = tmp_path_factory.mktemp("readme") / "checkout"
    copied(place)
    study, smoke = (place / "bench" / "sweeps" / f"{name}.toml" for name in ("seed", "smoke"))
    study.write_text("repeats = 1\n" + study.read_text())
    smoke.write_text(smoke.read_text().replace("windows = 10", "windows = 3"))
    return place


@pytest.fixture(scope="module")
def done(checkout: Path) -> Done:
    """How every command ended that needs no other hosts, in the order of the page."""
    return {
        command: subprocess.run(
            ["sh", "-c", command],
            cwd=checkout,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        for command in HERE
        if not command.startswith("make ")
    }


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
    statuses = [shown.count(f" {one} ") for one in ("ok", "unstable")]
    assert sum(statuses) == len(load_sweep("smoke").trials) == 3


@pytest.mark.mxnet
def test_the_whole_study_is_rehearsed_and_drawn(checkout: Path, done: Done) -> None:
    (shown,) = (ended.stdout for command, ended in done.items() if "bench.sweep seed" in command)
    report = checkout / "results" / "runs" / "rehearsal" / "report"
    table = pd.read_csv(report / "results.csv")
    assert len(table) == 27
    assert set(table["status"]) == {"ok"}
    most = table[table["devices"] == 256].set_index("network")
    speedups = {name: round(value, 1) for name, value in most["speedup_device"].items()}
    assert speedups == {"alexnet": 135.5, "inception-v3": 219.1, "resnet-152": 222.6}
    assert set(most["hosts"]) == {16}
    assert "REHEARSAL" in shown
    assert all(value in shown for value in ("135.5", "219.1", "222.6"))
    assert (report / "report.md").read_text().startswith("# REHEARSAL rehearsal\n")
    assert "REHEARSAL, not measured" in (report / "scaling.svg").read_text()


@pytest.mark.program
def test_the_fault_of_the_docs_is_seen_and_mended(tmp_path: Path) -> None:
    codes = []
    for command in commands("docs/faults.md"):
        words = command.replace(".venv", sys.prefix).replace("--run faulty", f"--run {tmp_path}/r")
        done = subprocess.run(words, shell=True, cwd=ROOT, capture_output=True, check=False)  # noqa: S602
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
