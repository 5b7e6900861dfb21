"""The workflow of docs/how-to/gate-ci.md, with a stub of fab."""

import subprocess
import textwrap
from pathlib import Path

import pytest

from bench.sweep import load_sweep
from tests.support.paths import ROOT

STUB = """#!/bin/sh
echo "$1 $2" >>calls
case $1 in
bench.sweep) exit $SWEPT ;;
results.export) exit $EXPORTED ;;
report.compare) exit $COMPARED ;;
esac
"""


def workflow() -> str:
    page = (ROOT / "docs" / "how-to" / "gate-ci.md").read_text()
    block = page.partition("```yaml\n")[2].partition("```")[0]
    assert len(block.splitlines()) <= 16
    return textwrap.dedent(block.partition("- run: |\n")[2])


@pytest.mark.parametrize(
    ("swept", "exported", "compared", "code"),
    [(0, 0, 0, 0), (5, 0, 4, 5), (0, 0, 4, 4), (6, 0, 0, 6), (0, 2, 0, 2), (5, 0, 2, 5)],
)
def test_the_workflow_exports_and_compares_and_ends_with_the_worse_code(
    tmp_path: Path, swept: int, exported: int, compared: int, code: int
) -> None:
    fab = tmp_path / ".venv" / "bin" / "fab"
    fab.parent.mkdir(parents=True)
    fab.write_text(STUB)
    fab.chmod(0o755)
    git = tmp_path / "git"
    git.write_text("#!/bin/sh\necho abcdef0\n")
    git.chmod(0o755)
    given = {"SWEPT": swept, "EXPORTED": exported, "COMPARED": compared}
    done = subprocess.run(
        ["bash", "-e", "-c", workflow()],
        cwd=tmp_path,
        env={
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            **{name: str(value) for name, value in given.items()},
        },
        timeout=20,
        check=False,
        capture_output=True,
    )
    assert done.returncode == code
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [one.split() for one in calls] == [
        ["bench.sweep", "gate"],
        ["results.export", "junit"],
        ["report.compare", "main"],
    ]


def test_the_gate_repeats_often_enough_for_an_interval() -> None:
    gate, smoke = load_sweep("gate"), load_sweep("smoke")
    assert (gate.repeats, smoke.repeats) == (5, 1)
    steps = {one.measuring.steps_per_window for one in gate.trials}
    assert min(steps) >= 10 * max(one.measuring.steps_per_window for one in smoke.trials)
