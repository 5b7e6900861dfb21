"""The files of a report: their content, and the optional ones."""

import csv
import dataclasses
import importlib.util
import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from plots.check import verify_report
from plots.figures.caption import caption
from plots.items import plain_lines
from plots.markdown import document
from plots.page.page import page
from plots.report import build, choice, write_parquet, write_upstream
from plots.results_csv import results_frame, upstream_tables
from plots.tables.comparison import remarks
from plots.tables.scaling import notes, terminal
from results.comparison.compare import compare
from results.cost.cost import NO_COSTS
from results.errors import StoreError
from results.exports.point import export_points
from results.integrity import digest
from results.record import Identity, Record
from results.run import Run, load
from results.scaling import scaling
from tasks.report import costs_of
from tests.support.goldens import assert_golden
from tests.support.runs.records import record
from tests.support.runs.scenes import point, published, run, three
from tests.support.runs.stores import stored

pytestmark = pytest.mark.pythons

HUNG: dict[str, Any] = {"kvstore": "dist_sync", "devices_per_host": 4, "status": "hung"}


def screen(study: Run) -> str:
    file = io.StringIO()
    Console(file=file, width=160).print(terminal(study.rows))
    points, columns = notes(study.rows)
    lines = [*file.getvalue().splitlines(), *plain_lines([*points, *columns], 160)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


@pytest.mark.parametrize("name", ["three", "published"])
def test_tables_and_pages_are_as_kept(name: str) -> None:
    study = run({"three": three, "published": published}[name]())
    assert_golden(f"{name}.txt", screen(study))
    assert_golden(f"{name}.md", document(study))


def test_a_point_that_ran_once_says_in_every_output_that_its_variance_is_assumed() -> None:
    once = run(three())
    again = run([*three(), *(dataclasses.replace(one, identity=_second(one)) for one in three())])
    for study, assumed in ((once, True), (again, False)):
        assert ("standard deviation of 1.5 % between runs" in screen(study)) is assumed
        assert ("run-to-run SD of 1.5 % assumed" in caption(study)) is assumed
        assert ("deviation of 1.5 %" in page(study)) is assumed
        kinds = results_frame(study.rows)["notes"]
        assert [("variance-assumed" in kind) for kind in kinds] == [assumed] * 3
        figures = [point.figures for point in export_points(study)]
        assert [one.get("assumed_scatter") for one in figures] == [(assumed and 0.015) or None] * 3
        told = " ".join(remarks(compare(study, study)))
        assert ("standard deviation of 1.5 % is assumed" in told) is assumed


def _second(record: Record) -> Identity:
    return dataclasses.replace(record.identity, repeat=1)


def test_a_page_names_points_without_a_number_with_their_cause() -> None:
    text = document(run([*three(), point(8, 1, **HUNG)]))
    assert "## Points without a result\n\n- alexnet dist_sync x8: hung (stalled): broken.\n" in text
    assert "## Points without a result" not in document(run(three()))


def test_a_page_holds_the_commands_of_each_point_once_for_those_that_are_alike() -> None:
    roles = {"scheduler-0": "S", **{f"worker-{n}": f"W{n}" for n in range(3)}}
    records = [dataclasses.replace(one, commands=roles) for one in three()]
    text = document(run(records))
    assert text.count("# scheduler-0\nS\n# worker-0\nW0\n# worker-1 to worker-2: similar") == 3
    assert "W1" not in text


def test_a_page_says_once_what_is_alike_on_hosts_and_lists_what_differs() -> None:
    gpu = {"name": "Tesla K80", "index": "0", "used": "3"}
    hosts = {
        "a": {"cores": [0, 1], "gpus": [gpu, gpu], "python": "3.11", "load": 0.1},
        "b": {"cores": [0, 1], "gpus": [gpu, gpu], "python": "3.11", "load": 0.2},
        "c<script>": {"cores": [0, 1], "gpus": [gpu], "python": "3.11", "load": 0.3},
    }
    text = document(run(three(), environment={"hosts": hosts}))
    assert "### Hosts: a, b, c&lt;script>\n\n- cores: 2 (numbers 0 and 1)\n- Python: 3.11\n" in text
    assert "| hosts | GPU |\n| --- | --- |\n| a, b | 2 x name Tesla K80 |\n" in text
    assert "| c&lt;script> | name Tesla K80 |" in text
    assert "load" not in text
    assert "<script>" not in text.replace("\\<script>", "")


def test_figures_of_an_earlier_report_are_gone_where_nothing_is_left_to_draw(
    tmp_path: Path,
) -> None:
    stored(tmp_path, *three())
    build(load(tmp_path))
    (tmp_path / "records.jsonl").unlink()
    stored(tmp_path, point(1, 1e6, mode="bandwidth", kvstore="dist_sync"))
    names = [path.name for path in build(load(tmp_path))]
    assert names == ["results.csv", "report.md", "index.html"]
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == sorted(names)


def test_upstreams_csv_has_a_file_a_network_and_no_row_for_what_failed() -> None:
    found = upstream_tables(scaling([*three(), point(8, 1, **HUNG)]))
    assert list(found) == ["alexnet.csv"]
    rows = list(csv.reader(io.StringIO(found["alexnet.csv"])))
    assert rows[0] == ["num_gpus", "img_processed_per_sec"]
    assert [int(row[0]) for row in rows[1:]] == [1, 2, 4]
    assert [float(row[1]) for row in rows[1:]] == pytest.approx([10, 18, 30])


def test_upstreams_csv_of_the_published_table_joins_stores_as_upstream_did() -> None:
    found = upstream_tables(scaling(published()))
    assert list(found) == ["alexnet.csv", "inception-v3.csv", "resnet-152.csv"]
    assert found["alexnet.csv"].splitlines()[-1].startswith("256,61938.3")


def test_stores_that_overlap_have_files_of_their_own(tmp_path: Path) -> None:
    both = [point(n, 10 * n, kvstore=store) for store in ("local", "dist_sync") for n in (1, 2)]
    stored(tmp_path, *both)
    names = [path.name for path in write_upstream(load(tmp_path), NO_COSTS)]
    assert names == ["alexnet-local.csv", "alexnet-dist_sync.csv"]
    assert (tmp_path / "report" / "upstream" / names[0]).exists()


def test_a_report_built_again_keeps_no_files_of_other_records(tmp_path: Path) -> None:
    stored(tmp_path, *three())
    write_upstream(load(tmp_path), NO_COSTS)
    (tmp_path / "report" / "results.parquet").write_bytes(b"of other records")
    again = load(tmp_path)
    build(again, costs_of(again, None))
    digest.write(tmp_path, "code", choice=choice(again))
    assert not (tmp_path / "report" / "results.parquet").exists()
    assert list((tmp_path / "report" / "upstream").iterdir()) == []
    assert verify_report(tmp_path).wrong == []


@pytest.mark.skipif(
    importlib.util.find_spec("pyarrow") is not None, reason="needs a Python without pyarrow"
)
def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path) -> None:
    stored(tmp_path, *three())
    with pytest.raises(StoreError, match=r"--parquet needs pyarrow.*'make exports'"):
        write_parquet(load(tmp_path), NO_COSTS)
    assert list((tmp_path / "report").iterdir()) == []


def test_parquet_holds_what_the_csv_holds(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    stored(tmp_path, *three())
    study = load(tmp_path)
    build(study)
    (path,) = write_parquet(study, NO_COSTS)
    column = "images_per_second"
    from_csv = pd.read_csv(tmp_path / "report" / "results.csv")[column]
    assert pd.read_parquet(path)[column].tolist() == from_csv.tolist()


def test_a_report_is_drawn_over_another_run(tmp_path: Path) -> None:
    for name in ("one", "other"):
        stored(tmp_path / name, *three())
    plain = build(load(tmp_path / "one"))
    before = [path.read_bytes() for path in plain]
    after = [
        path.read_bytes() for path in build(load(tmp_path / "one"), over=load(tmp_path / "other"))
    ]
    same = [one == two for one, two in zip(before, after, strict=True)]
    assert same == [True, True, False, False, False]


def test_text_that_no_file_can_hold_is_escaped_in_the_csv() -> None:
    odd = dataclasses.replace(record([[1, 2.0]], status="lost"), message="a\ud800b")
    assert results_frame(scaling([odd]))["message"].tolist() == ["a\\ud800b"]
