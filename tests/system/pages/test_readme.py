"""Commands of the README and of the first pages run in a copy of the checkout."""

import re
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from tests.support.paths import ROOT
from tests.support.programs.commands import fab
from tests.support.sources import copied


def commands(page: str) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


PAGES = ("README.md", "docs/tutorials/first-sweep.md", "docs/how-to/train-on-your-data.md")
LATER_PAGES = ("docs/how-to/slow-worker.md", "docs/how-to/compare-settings.md")
SMOKE = ".venv/bin/fab smoke"


def local_commands(pages: tuple[str, ...]) -> list[str]:
    """Return commands that need no hosts; test_cluster.py tries the others."""
    found = [command for page in pages for command in commands(page)]
    return [one for one in found if not re.search(r"--hostfile hosts\b(?!\.)", one)]


def sweeps(page: str) -> dict[str, str]:
    """Return the sweep files of a page by name."""
    found = re.findall(
        r"[Ss]ave this as `([\w-]+\.toml)`:\n\n```toml\n(.*?)```",
        (ROOT / page).read_text(),
        re.DOTALL,
    )
    return dict(found)


Done = dict[str, subprocess.CompletedProcess[str]]


LESS = {
    "bench/sweeps/seed.toml": {'device = "gpu"': 'repeats = 1\ndevice = "gpu"'}
    | {'"1..16"': "[1, 16]", '"32..256"': "[32]"},
    "bench/sweeps/smoke.toml": {"windows = 10": "windows = 3", "[1, 2]": "[2]"}
    | {"steps_per_window = 20": "steps_per_window = 2\nservers_per_host = 1"},
    "tasks/bench.py": {'batch="32",\n    nthreads=""': 'batch="4",\n    nthreads="1"'}
    | {'windows="10"': 'windows="1"'},
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the checkout with small sweeps; the commands stay the same."""
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
    """Return the exit codes of the commands of PAGES."""
    return ran(checkout, [SMOKE, *local_commands(PAGES)], PAGES)


def ran(checkout: Path, listed: list[str], pages: tuple[str, ...]) -> Done:
    """Run these commands in the order of their pages, and return their exit codes."""
    found = {}
    for name, text in [pair for page in pages for pair in sweeps(page).items()]:
        # smoke trains; of the other sweeps a simulation is enough
        (checkout / name).write_text(simulated(text))
    for command in listed:
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
        if new := re.search(r" bench\.new (\w+)", command):
            written = checkout / f"{new[1]}.toml"
            written.write_text(simulated(written.read_text()))
    return found


def simulated(sweep: str) -> str:
    """Return the text of a sweep with the simulated engine and one repeat."""
    return 'engine = "fake"\n' + re.sub(r"^repeats = \d+", "repeats = 1", sweep, flags=re.MULTILINE)


@pytest.mark.mxnet
def test_every_other_command_runs_as_it_stands(checkout: Path, done: Done) -> None:
    assert len(done) > 8
    check_ended(done)
    runs = {path.parent.name for path in checkout.glob("results/runs/*/report")}
    assert {"mine", "first", "second", "shards", "rehearsal"} < runs


@pytest.mark.slow
@pytest.mark.mxnet
def test_commands_of_later_pages_run_as_they_stand(checkout: Path, done: Done) -> None:
    later = ran(checkout, local_commands(LATER_PAGES), LATER_PAGES)
    assert len(later) > 2
    check_ended(later)


def check_ended(done: Done) -> None:
    """Check that each command succeeded and printed something."""
    for command, ended in done.items():
        # 6 on a busy machine: not steady, but measured
        allowed = (0, 6) if " bench." in command or " report." in command else (0,)
        assert ended.returncode in allowed, (
            f"{command}\n{ended.stdout[-2000:]}\n{ended.stderr[-2000:]}"
        )
        assert ended.stdout or command.startswith(("sed ", ".venv/bin/fab data.")), command


@pytest.mark.mxnet
def test_smoke_trains_with_and_without_servers(done: Done) -> None:
    shown = done[SMOKE].stdout
    rows = [line.split() for line in shown.splitlines()]
    assert [row[1:3] for row in rows if row[:1] == ["tiny"]] == [["local", "1"], ["dist_sync", "2"]]


def check_study(report: Path, shown: str, points: int, speedups: dict[str, float]) -> None:
    """Every point is simulated; the largest speed-ups are the published ones."""
    table = pd.read_csv(report / "results.csv")
    assert len(table) == points
    assert set(table["status"]) == {"ok"}
    most = table[table["devices"] == table["devices"].max()].set_index("network")
    found = {name: round(value, 1) for name, value in most["speedup_device"].items()}
    assert found == speedups
    assert (most["hosts"] == most["devices"] / 16).all()
    assert "SIMULATED" in shown
    document = (report / "report.md").read_text()
    assert all(str(value) in document for value in speedups.values())
    assert document.startswith("# SIMULATED rehearsal\n")
    assert "SIMULATED, not measured" in (report / "scaling.svg").read_text()


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
    page = "docs/how-to/rehearse-failures.md"
    done = [
        subprocess.run(
            ["sh", "-c", command], cwd=checkout, capture_output=True, text=True, check=False
        )
        for command in commands(page)
    ]
    assert [one.returncode for one in done] == [5, 0, 0]
    text = (ROOT / page).read_text()
    (cause,) = re.findall(r"tiny dist_sync x2: failed: .* was killed by SIGKILL", text)
    *_, failure, command, again = done[0].stderr.splitlines()
    numbers = re.compile(r"\(rank \d\)|\(PID \d+\)|\d+ of \d+")  # differ from job to job
    assert numbers.sub("", failure).startswith(numbers.sub("", cause))
    assert numbers.sub("", f"\n{command}\n{again}\n") in numbers.sub("", text)
