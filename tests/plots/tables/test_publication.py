"""The short table for a paper."""

import csv
import io
import re

import pytest

from plots.format import latex_text
from plots.tables.publication import latex, markdown, table_csv, with_interval
from results.errors import StoreError
from results.rates import Ratio
from tests.support.runs.scenes import point, run, three


def test_a_latex_table_has_units_and_one_row_per_point() -> None:
    text = latex(run(three()))
    assert "{throughput (images/s)} & {efficiency (\\%)}" in text
    rows = [line for line in text.splitlines() if line.startswith("    {alexnet}")]
    assert len(rows) == 3
    columns = re.search(r"tabular}{@{}([lr]+)@{}}", text)
    assert columns
    assert {row.count(" & ") + 1 for row in rows} == {len(columns[1])}
    assert "commit abcdef0" in text


def test_braces_and_environments_of_a_latex_table_are_balanced() -> None:
    odd = run(
        three(),
        name="50%_&{$#\\^~<>|\u4e2d",
        environment={"processor": "A_b & c {d} 50 %", "commit": "1"},
    )
    text = latex(odd)
    plain = re.sub(r"\\[{}\\]", "", text)
    depth = 0
    for sign in plain:
        depth += (sign == "{") - (sign == "}")
        assert depth >= 0
    assert depth == 0
    assert re.findall(r"\\begin{(\w+)}", text) == re.findall(r"\\end{(\w+)}", text)[::-1]
    assert r"A\_b \& c \{d\} 50 \%" in text


def test_special_characters_are_escaped() -> None:
    found = latex_text("a_b & 5 % $x #1 {y} ~ ^ \\ < > 3 ± 1 \u4e2d\u2028")
    assert found.startswith(r"a\_b \& 5 \% \$x \#1 \{y\} \textasciitilde{} \textasciicircum{} ")
    assert r"\textbackslash{} \textless{} \textgreater{} 3 $\pm$ 1 ?" in found
    assert found.isascii()


def test_points_that_differ_in_a_setting_are_told_apart() -> None:
    records = [point(1, 10, dtype=dtype) for dtype in ("float32", "bfloat16")]
    text = markdown(run(records))
    assert "dtype bfloat16" in text
    assert "settings" in text
    assert "settings" not in markdown(run(three())).split("\n")[0]


def test_a_point_without_a_result_keeps_its_row() -> None:
    text = markdown(run([*three(), point(8, 50, status="hung", devices_per_host=8)]))
    assert "no result: hung (stalled)" in text


def test_csv_has_full_numbers() -> None:
    one, *_ = csv.DictReader(io.StringIO(table_csv(run(three()))))
    assert float(one["low"]) < float(one["images_per_second"]) < float(one["high"])
    assert (one["efficiency"], one["n"], one["status"]) == ("1.0", "1", "ok")


def test_each_point_has_its_quality() -> None:
    study = run(three())
    (first, *_) = csv.DictReader(io.StringIO(table_csv(study)))
    assert first["quality"] == study.rows[0].quality
    assert f"{{{study.rows[0].quality}}}" in latex(study)
    assert "Quality of the points: 3 " in latex(study)


def test_a_simulation_is_marked() -> None:
    records = [point(n, 10.0 * n, engine="fake") for n in (1, 2)]
    assert "SIMULATED" in latex(run(records))
    assert "SIMULATED" in markdown(run(records))


def test_a_run_without_training_points_is_refused() -> None:
    reading = point(1, 20, mode="test-io", data_train="d")
    with pytest.raises(StoreError, match="expected a training point, got none"):
        latex(run([reading]))


@pytest.mark.parametrize(
    ("low", "value", "high", "text"),
    [
        (17.62, 17.89, 18.16, "17.89 ± 0.27"),
        (82.85382982912881, 82.85382982912904, 82.85382982912927, "82.9"),
        (1203, 1234, 1265, "1234 ± 31"),
        (47, 86, 156, "86 [47, 156]"),
        (1.0, 1.0, 1.0, "1.00"),
        (None, 4.126, None, "4.13 (no CI)"),
        (0.1, 10, 90, "10.0 (uncertain)"),
    ],
)
def test_intervals_have_two_digits(
    low: float | None, value: float, high: float | None, text: str
) -> None:
    assert with_interval(Ratio(value=value, low=low, high=high)) == text
