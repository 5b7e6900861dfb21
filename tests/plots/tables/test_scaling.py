"""Tables, CSV and figures agree with the rows; equal rows give equal bytes."""

import csv
import dataclasses
import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from plots.check import cell_differences
from plots.figures.model import drawable, lines
from plots.figures.scaling import draw, save
from plots.format import format_percent, significant
from plots.items import Item, plain_lines
from plots.report import build
from plots.results_csv import COLUMNS, results_frame
from plots.tables.scaling import HEADER, cells, failure_items, markdown, notes, terminal
from results.cost.cost import NO_COSTS
from results.errors import StoreError
from results.integrity.digest import FORMAT, report_format
from results.rates import Ratio
from results.record import Record
from results.run import Run, load
from results.scaling import ScalingRow, scaling, with_chosen_baseline
from results.speedup import parse_baseline
from tests.support.goldens import assert_golden
from tests.support.paths import ROOT
from tests.support.runs.records import PUBLISHED, points, record
from tests.support.runs.stores import stored

CONTRACT = (
    "network,mode,kvstore,dtype,devices,hosts,devices_per_host,batch_per_device,worker_batch,"
    "global_batch,images_per_second,low,high,speedup_device,efficiency_device,speedup_host,"
    "efficiency_host,repeats,windows,emulated,status,message,"
    "engine,num_layers,image_shape,data_nthreads,gc_type,env,servers,efficiency_device_low,"
    "efficiency_device_high,efficiency_host_low,efficiency_host_high,speedup_worker,"
    "efficiency_worker,efficiency_worker_low,efficiency_worker_high,baseline,speedup_baseline,"
    "efficiency_baseline,efficiency_baseline_low,efficiency_baseline_high,accuracy,"
    "elapsed_seconds,peak_memory_bytes,commit,standing,bytes_per_second,notes,cold,"
    "quality,quality_reasons,verdict,share_compute,share_input,share_link,share_server,"
    "share_straggler,share_cores,share_sync,share_unexplained"
)


def small() -> list[ScalingRow]:
    """Return two stores on one and two devices, with one failed point."""
    fields = {"devices_per_host": 2}
    two = {"devices": 2, "kvstore": "dist_sync", **fields}
    return scaling(
        [
            record([[1, 2.0, 2.1, 1.9]], **fields),
            record([[1, 1.2, 1.0, 1.1]], devices=2, **fields),
            record([[1, 4.0, 4.1, 3.9]], kvstore="dist_sync", **fields),
            record([[1, 2.0, 2.1, 1.9]] * 2, **two),
            record([[1, 2.0]] * 2, **two, network="vgg", num_layers=16, status="hung"),
        ]
    )


def text_of(rows: list[ScalingRow], width: int = 140) -> str:
    from rich.console import Console  # noqa: PLC0415

    file = io.StringIO()
    console = Console(file=file, width=width)
    console.print(terminal(rows))
    points, columns = notes(rows)
    return file.getvalue() + "\n".join(plain_lines([*points, *columns], width))


def test_the_csv_has_the_columns_that_others_rely_on() -> None:
    text = results_frame(small()).to_csv(index=False)
    assert text.splitlines()[0] == CONTRACT
    assert ",".join(COLUMNS) == CONTRACT


def test_the_csv_has_what_the_table_and_the_records_have() -> None:
    facts = [{"peak_memory_bytes": 5 * 10**9}, {"peak_memory_bytes": 7 * 10**9}]
    fields = {"devices": 2, "kvstore": "dist_sync", "network": "resnet", "num_layers": 152}
    made = [
        record([[1, 2.0, 2.1]] * 2, repeat=n, gc_type="2bit", env=("A=1", "B=x y"), **fields)
        for n in (0, 1)
    ]
    made = [
        dataclasses.replace(
            one,
            elapsed_seconds=10.5,
            accuracy=0.25,
            ranks=tuple(
                dataclasses.replace(rank, facts=fact)
                for rank, fact in zip(one.ranks, facts, strict=True)
            ),
        )
        for one in made
    ]
    (told,) = csv.DictReader(
        io.StringIO(results_frame(scaling(made), commit="abc").to_csv(index=False))
    )
    expected = {
        "network": "resnet-152",
        "engine": "mxnet",
        "num_layers": "152",
        "image_shape": "3,224,224",
        "data_nthreads": "4",
        "gc_type": "2bit",
        "env": "A=1 'B=x y'",
        "servers": "2",
        "accuracy": "0.25",
        "elapsed_seconds": "21.0",
        "peak_memory_bytes": "7000000000",
        "commit": "abc",
        "standing": "measured",
        "bytes_per_second": "",
        "cold": "False",
    }
    assert {name: told[name] for name in expected} == expected


def test_efficiencies_have_their_intervals_in_the_csv() -> None:
    rows = small()
    for row, told in zip(rows, results_frame(rows).to_dict("records"), strict=True):
        for name in ("device", "host", "worker"):
            against = row.scalings.get(name)
            found = [told[f"efficiency_{name}{end}"] for end in ("", "_low", "_high")]
            if against is None:
                assert all(map(pd.isna, found))
            else:
                assert found == list(vars(against.efficiency).values())
                assert told[f"speedup_{name}"] == against.speedup.value


def test_reading_alone_has_one_name_in_table_and_csv() -> None:
    (row,) = scaling([record([[1, 2.0, 2.1]], mode="test-io", data_train="x", cold=True)])
    (found,) = results_frame([row]).to_dict("records")
    assert (found["network"], found["data_nthreads"], found["cold"]) == ("input", 4, True)
    assert found["kvstore"] == cells(row)[1] == "test-io"


def test_what_moves_bytes_has_bytes_per_second_and_no_images() -> None:
    fields = {"mode": "bandwidth", "kvstore": "dist_sync"}
    (found,) = results_frame(scaling([record([[1, 2.0, 2.0]], **fields)])).to_dict("records")
    assert found["bytes_per_second"] == 4.0
    assert found["images_per_second"] is None


def test_the_csv_says_why_a_cell_is_empty() -> None:
    failed = record([[1]], status="failed")
    two = [record([[1, 2.0]], devices=n, devices_per_host=4) for n in (2, 4)]
    found = results_frame(scaling([failed, *two])).to_dict("records")
    assert [one["notes"] for one in found] == ["", "baseline-failed", "baseline-failed"]
    chosen = with_chosen_baseline(scaling(two), parse_baseline("local x2"))
    found = results_frame(chosen).to_dict("records")
    assert [(one["baseline"], one["speedup_baseline"]) for one in found] == [
        ("local x2", 1.0),
        ("local x2", 2.0),
    ]


def test_the_csv_has_a_row_for_each_point() -> None:
    text = results_frame(small()).to_csv(index=False)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 5
    last = rows[3]
    assert float(last["images_per_second"]) == pytest.approx(8.0)
    assert float(last["speedup_device"]) == pytest.approx(2.0)
    assert float(last["efficiency_device"]) == pytest.approx(1.0)
    assert (last["devices_per_host"], last["global_batch"], last["status"]) == ("2", "16", "ok")
    assert rows[4]["images_per_second"] == ""
    assert (rows[4]["status"], rows[4]["message"]) == ("hung", "broken")


def test_the_markdown_table_is_stable() -> None:
    assert_golden("table.md", markdown(small()))


def test_a_narrow_terminal_cuts_no_number() -> None:
    digits = "".join(character for character in text_of(small(), 60) if character.isdigit())
    assert "…" not in text_of(small(), 60)
    assert len(digits) == len([c for c in text_of(small()) if c.isdigit()])


def test_a_failed_point_is_shown_with_its_cause() -> None:
    assert "hung" in text_of(small())
    assert failure_items(small()) == [Item("vgg-16 dist_sync x2: hung (stalled): broken.")]


def test_numbers_have_three_digits_and_no_exponent() -> None:
    found = [significant(value) for value in (61938.36, 457.07, 20.8, 0.07641, 0)]
    assert found == ["61938", "457", "20.8", "0.0764", "0"]


def test_stores_that_overlap_are_lines_of_their_own() -> None:
    labels = [line.label for line in lines(small())]
    assert labels == ["alexnet, local", "alexnet, dist_sync"]


def test_a_study_that_changes_store_beyond_one_host_is_one_line() -> None:
    (line,) = lines(scaling(points(PUBLISHED)))
    assert line.label == "alexnet, device / dist_device_sync"
    assert [row.trial.layout.devices for row in line.rows] == list(PUBLISHED)


def test_every_measured_point_is_drawn_with_ticks_at_its_devices() -> None:
    rows = scaling(points(PUBLISHED))
    figure: Any = draw(rows, "title", "footer")
    assert len(figure.axes) == 4
    for axes in figure.axes:
        assert [int(tick) for tick in axes.get_xticks()] == list(PUBLISHED)
    shown = [float(y) for bars in figure.axes[0].containers for y in bars.lines[0].get_ydata()]
    assert shown == pytest.approx([row.rate.images_per_second for row in rows])
    assert figure.axes[2].get_ylim()[0] == 0


def test_emulated_points_are_hollow(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [dataclasses.replace(row, emulated=row.trial.layout.devices == 2) for row in small()[:2]]
    figure: Any = draw(rows, "t", "f")
    fills = [bars.lines[0].get_markerfacecolor() for bars in figure.axes[0].containers]
    assert fills[0] != "white"
    assert fills[1] == "white"


def test_networks_measured_on_one_count_are_left_to_the_table() -> None:
    rows = [*small(), *scaling([record([[1, 1.0, 1.0]], network="tiny")])]
    assert {row.trial.model.network for row in drawable(rows)} == {"alexnet"}
    assert len(drawable(rows[-1:])) == 1


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    rows = small()[:2]
    paths = [save(draw(rows, "t", "f"), tmp_path, name) for name in ("a", "b")]
    for one, other in zip(*paths, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_a_figure_without_a_good_point_is_still_drawn() -> None:
    assert draw(small()[-1:], "t", "f").axes


def test_a_report_has_its_files(tmp_path: Path) -> None:
    stored(tmp_path, record([[1, 2.0, 2.1]]), record([[1, 1.2, 1.0]], devices=2))
    paths = build(load(tmp_path))
    names = ["results.csv", "report.md", "index.html", "scaling.svg", "scaling.png"]
    assert [path.name for path in paths] == names
    assert all(path.stat().st_size > 200 for path in paths)
    page = (tmp_path / "report" / "report.md").read_text()
    assert "| alexnet" in page
    assert "scaling.svg" in page


def test_a_rehearsal_says_so_everywhere() -> None:
    rows = scaling([record([[1, 2.0, 2.0]], engine="fake")])
    assert "SIMULATED" in markdown(rows)
    from plots.figures.caption import caption  # noqa: PLC0415

    assert "SIMULATED" in caption(Run(folder=Path(), rows=rows, environment={}))


def test_a_run_without_records_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no point has been measured yet"):
        load(tmp_path)


def test_texts_of_people_and_processes_are_shown_as_they_are() -> None:
    text = "a [bold]b[/bold] [/x/y.cc:12] $x_$ $\\foo$ <script>"
    rows = [dataclasses.replace(row, message=text) for row in small()]
    assert text in failure_items(rows)[0].text
    figure = draw(rows, text, text)
    figure.savefig(io.BytesIO(), format="svg")


def test_the_committed_run_gives_the_committed_table() -> None:
    folder = ROOT / "docs" / "runs" / "demo"
    run = load(folder)
    assert run.complete
    kept = (folder / "report" / "results.csv").read_text()
    if report_format(folder, None) != FORMAT:
        pytest.skip(
            "the committed report has another format: fab report.build --run docs/runs/demo"
        )
    # Linear algebra rounds the last digit differently on other processors.
    assert list(cell_differences(run, NO_COSTS, kept, "records")) == []
    assert not any(row.emulated for row in run.rows)


def test_a_narrow_terminal_is_told_which_columns_it_lacks() -> None:
    rows = scaling(points(PUBLISHED))
    whole, narrow = terminal(rows), terminal(rows, without=("batch", "vs 1 host"))
    names = [str(column.header) for column in narrow.columns]
    without = {
        "vs 1 worker",
        "accuracy",
        "time to accuracy",
        "epochs",
        "verdict",
    }  # no point has a value
    assert set(HEADER) - set(names) == without | {"batch", "vs 1 host"}
    assert len(whole.columns) == len(HEADER) - len(without)
    speedup = narrow.columns[names.index("speed-up")]
    assert str(list(speedup.cells)[-1]) == "135.5"


def imported(tool: str, kvstore: str, devices: int) -> Record:
    """Return a point of another tool, from its log."""
    one = record([[1, 1.0, 1.1]], devices=devices)
    trial = one.trial.replace(kvstore=kvstore, engine=f"imported {tool}")
    return dataclasses.replace(one, trial=trial, source=f"imported from {devices}.log ({tool})")


def test_points_of_different_tools_are_never_joined() -> None:
    asked = [("mxnet", "device", 2), ("tf-cnn", "unknown", 4), ("horovod", "horovod", 8)]
    drawn = lines(scaling([imported(*one) for one in asked]))
    assert [[row.trial.layout.devices for row in line.rows] for line in drawn] == [[2], [4], [8]]
    assert [line.label for line in drawn] == [
        "alexnet, device, imported mxnet",
        "alexnet, unknown, imported tf-cnn",
        "alexnet, horovod, imported horovod",
    ]


def test_figures_of_others_are_no_part_of_a_measured_line() -> None:
    ours = record([[1, 1.0, 1.1]])
    theirs = [
        dataclasses.replace(record([[1, 1.0, 1.1]], devices=n), source="published: a table")
        for n in (2, 4)
    ]
    drawn = lines(scaling([ours, *theirs]))
    assert [[row.trial.layout.devices for row in line.rows] for line in drawn] == [[1], [2, 4]]


def test_logs_of_one_tool_make_one_line() -> None:
    (line,) = lines(scaling([imported("mxnet", "device", n) for n in (1, 2)]))
    assert line.label == "alexnet, device"


def test_an_interval_wider_than_its_value_is_no_result_in_the_table() -> None:
    wide = [record([[1, 1.0, 9.0]], devices=n) for n in (1, 2)]
    text = markdown(scaling(wide))
    assert "| unknown |" in text.replace("  ", "")
    assert "100 % (uncertain)" in text
    assert "uncertain, unknown: too few windows" in text
    assert format_percent(Ratio(value=0.96, low=0.01, high=90)) == "96 % (uncertain)"
    assert format_percent(Ratio(value=0.96, low=0.5, high=1.9)) == "96 % [50, 190]"


def test_an_interval_with_unequal_sides_is_told_by_both_ends() -> None:
    assert format_percent(Ratio(value=0.86, low=0.47, high=1.56)) == "86 % [47, 156]"
    assert format_percent(Ratio(value=0.9, low=0.87, high=0.93)) == "90 ± 3 %"
    assert format_percent(Ratio(value=0.9, low=0.8, high=1.0)) == "90 ± 10 %"
    assert format_percent(Ratio(value=0.9, low=0.8, high=1.02)) == "90 % [80, 102]"
    assert format_percent(Ratio(value=0.529, low=0.5221, high=0.5361)) == "53 ± 0.7 %"
    assert format_percent(Ratio(value=0.529, low=0.5281, high=0.5361)) == "53 % [52.8, 53.6]"
    assert format_percent(Ratio(value=1, low=1, high=1)) == "100 %"
    assert format_percent(Ratio(value=1, low=None, high=None)) == "100 %"


def test_without_a_number_on_one_device_the_table_says_why_it_has_no_speedup() -> None:
    two = [record([[1, 2.0, 2.1]], devices=2)]
    why = (
        "speed-up, efficiency: not available, because no point with a result on 1 device has the "
        "same settings as another point."
    )
    assert why in markdown(scaling(two))
    assert why in markdown(scaling([*two, record([[1]], status="failed")]))
    assert why not in markdown(scaling([*two, record([[1, 2.0, 2.1]])]))
    assert why not in markdown(scaling([record([[1]], devices=2, status="failed")]))
