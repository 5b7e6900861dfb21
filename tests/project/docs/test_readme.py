"""Continuous integration runs the README's commands, and sweeps in the docs load."""

import re
from pathlib import Path

from bench.sweep import load_sweep
from tests.support.paths import ROOT


def test_continuous_integration_runs_the_make_commands() -> None:
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    made = re.findall(r"^make .*", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert made == ["make demo", "make test"]
    assert {*made, "make test-system"} <= set(script)


def test_the_sweeps_in_the_docs_load(tmp_path: Path) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    blocks = [
        block
        for page in pages
        for block in re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
        if "[[points]]" in block
    ]
    assert len(blocks) > 3
    for block in blocks:
        (tmp_path / "doc.toml").write_text(block)
        assert load_sweep(str(tmp_path / "doc.toml")).trials
