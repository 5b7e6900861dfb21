"""The sweeps of docs/how-to/vary-settings.md have the points that it counts."""

import re
from pathlib import Path

import pytest
from invoke.context import Context

from bench.settings.point_names import chosen
from bench.sweep import load_sweep
from tasks.plan import bench_plan
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "how-to" / "vary-settings.md").read_text(encoding="utf-8")
FIRST, SECOND = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def test_the_plan_of_the_page_counts_the_product(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "compression.toml"
    file.write_text(FIRST)
    bench_plan.body(Context(), str(file), run=f"{tmp_path}/run")
    counted, varies, *_ = capsys.readouterr().out.splitlines()
    counts = counted.partition(", about")[0]
    assert f"{counts}, about " in PAGE
    assert varies in PAGE.splitlines()
    words = re.search("--point '(.*?)'", PAGE)
    assert words
    trials = load_sweep(str(file)).trials
    assert [trial.name for trial in chosen(trials, words[1])] == ["tiny dist_sync 2bit x2"]


def test_the_variants_of_the_page_change_fields_together(tmp_path: Path) -> None:
    file = tmp_path / "batches.toml"
    file.write_text(SECOND)
    found = [(t.training.batch_per_device, t.training.lr) for t in load_sweep(str(file)).trials]
    assert found == [(8, 0.01)] * 2 + [(32, 0.04)] * 2
