"""Each promise of docs/reference/security-promises.md names a test."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "reference" / "security-promises.md"
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[name for _, name in NAMED])
def test_each_promise_has_its_test(file: str, name: str) -> None:
    source = (ROOT / "tests" / file).read_text(encoding="utf-8")
    assert re.search(rf"^def {name}\(", source, re.MULTILINE)


def test_each_row_of_promises_names_a_test() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## Promises")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == len(NAMED) > 10


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/tutorials/first-cluster.md",
        "docs/how-to/run-any-script.md",
        "docs/how-to/data-on-hosts.md",
        "docs/reference/sweep-file.md",
    ],
)
def test_pages_lead_to_who_is_trusted(page: str) -> None:
    assert "security.md" in (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.program
def test_a_plan_of_a_sweep_runs_nothing_of_it(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    sweep = tmp_path / "sweep.toml"
    sweep.write_text(
        f'network = "tiny"\nbatch_per_device = 2\npython = "{program}"\n'
        f'env = ["LD_PRELOAD={tmp_path}/evil.so", "PYTHONSTARTUP={program}"]\n[[points]]\n'
    )
    done = subprocess.run(
        [Path(sys.executable).with_name("fab"), "bench.plan", sweep, "--commands"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert str(program) in done.stdout
    assert not ran.exists()
