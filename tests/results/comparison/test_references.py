"""Published tables are printed as published, and scale as every run does."""

import re
import tomllib
from typing import Any

import pytest
from invoke.context import Context

from bench.errors import SpecError
from bench.sweep import load_sweep
from plots.tables.scaling import terminal
from results.comparison.references import differing_cells, read_table, reference, table_names
from results.scaling import ScalingRow
from tasks.report import report_show as _report_show
from tests.support.paths import ROOT
from tests.support.programs.commands import refusal

# Invoke types a task as the function it wraps.
report_show: Any = _report_show

# GPUs, then images per second of AlexNet, Inception-v3 and ResNet-152.
TUTORIAL = """
  1   457.07   30.4    20.8
  2   870.43   59.61   38.76
  4   1514.8   117.9   77.01
  8   2852.5   233.39  153.07
 16   4244.18  447.61  298.03
 32   7945.57  882.57  595.53
 64  15840.52 1761.24 1179.86
128  31334.88  3416.2 2333.47
256  61938.36 6660.98 4630.42
"""


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def last(name: str) -> dict[str, ScalingRow]:
    """Return each network's row on all 256 GPUs."""
    return {row.trial.label: row for row in reference(name).rows if row.trial.layout.devices == 256}


def shown(capsys: pytest.CaptureFixture[str], **options: object) -> str:
    report_show.body(Context(), **options)
    return capsys.readouterr().out


def test_all_cells_are_printed_as_the_tutorial_prints_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = shown(capsys, reference=True)
    cells = [line.split() for line in text.splitlines()]
    for line in TUTORIAL.strip().splitlines():
        assert line.split() in cells
    assert shown(capsys, reference="tutorial") == text


def test_speed_ups_stand_against_one_gpu_and_against_one_host(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = shown(capsys, reference="tutorial")
    assert re.search(r"256 +135\.5 \(52\.9 %\) +219\.1 \(85\.6 %\) +222\.6 \(87\.0 %\)", text)
    assert re.search(r"256 +14\.6 \(91\.2 %\) +14\.9 \(93\.0 %\) +15\.5 \(97\.1 %\)", text)
    assert "upstream-readme differs in resnet-152 on 1 GPU: 20.08, here 20.8" in text
    assert "its speed-up on 256 GPUs is 230.6, here 222.6" in text


def test_a_published_table_scales_as_a_run() -> None:
    rows = last("tutorial")
    speedups = {name: round(row.device.speedup.value, 1) for name, row in rows.items()}
    assert speedups == {"alexnet": 135.5, "inception-v3": 219.1, "resnet-152": 222.6}
    of_host = {name: round(100 * row.host.efficiency.value, 1) for name, row in rows.items()}
    assert of_host == {"alexnet": 91.2, "inception-v3": 93.0, "resnet-152": 97.1}
    assert round(last("upstream-readme")["resnet-152"].device.speedup.value, 1) == 230.6


def test_every_cell_comes_back_as_a_rate_without_an_interval() -> None:
    for name in table_names():
        table, run = read_table(name), reference(name)
        assert run.name == name
        assert len(run.rows) == 27
        for row in run.rows:
            printed = table.images_per_second[row.trial.label][row.trial.layout.devices]
            assert row.rate.images_per_second == pytest.approx(printed, rel=1e-14)
            assert (row.rate.low, row.rate.repeats, row.rate.windows) == (None, 1, 1)
            assert row.note_text.startswith("not measured by mxscale: published: ")
        assert "one window" in str(list(terminal(run.rows).columns[5].cells))


def test_the_tables_differ_in_one_cell() -> None:
    one, other = read_table("tutorial"), read_table("upstream-readme")
    assert differing_cells(one, other) == [("resnet-152", 1)]
    assert differing_cells(one, one) == []


def test_the_rehearsed_study_is_the_tutorial() -> None:
    data = tomllib.loads((ROOT / "bench" / "sweeps" / "seed.toml").read_text())
    table = read_table("tutorial")
    rates = {
        network: {int(devices): rate for devices, rate in series.items()}
        for network, series in data["rehearsal"].items()
    }
    assert rates == table.images_per_second
    batches = {trial.label: trial.training.batch_per_device for trial in load_sweep("seed").trials}
    assert batches == table.batch_per_device


def test_an_unknown_table_is_one_line_with_the_known_ones() -> None:
    code, said = refusal(report_show, reference="tutorail")
    assert code == 2
    assert "did you mean 'tutorial'?" in said
    assert said.endswith("Known: tutorial, upstream-readme")
    with pytest.raises(SpecError):
        read_table("../reference/tutorial")
    code, said = refusal(report_show, reference="tutorial", run="x")
    assert (code, said) == (
        2,
        "error: --reference: expected a run or a published table, got both",
    )
