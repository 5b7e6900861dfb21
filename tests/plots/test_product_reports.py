"""Reports of products: runs in which several settings vary."""

import csv
import dataclasses
import io
import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from bench.notes import Note, NoteKind
from plots.failed_repeats import earlier_items, failure_lines
from plots.figures.caption import caption
from plots.figures.model import lines
from plots.figures.paper import caption as paper_caption
from plots.page.page import page
from plots.results_csv import table_csv, upstream_tables
from plots.summary import summary
from plots.tables.scaling import filled_table, short_table
from results.comparison.compare import compare
from results.exports.point import export_points
from results.record import Record
from results.repeat import summarize
from results.run import load
from results.scaling import ScalingRow, scaling
from tests.support.pages.pages import unpacked
from tests.support.runs.records import record
from tests.support.runs.scenes import run
from tests.support.runs.stores import stored

pytestmark = pytest.mark.pythons

# Throughput of a point on one device, by setting, relative to the plain one.
DTYPE, GC = {"float32": 1.0, "bfloat16": 2.0}, {"none": 1.0, "2bit": 4.0}
EFFICIENCY = {"local": 0.9, "dist_sync": 0.5}


def seconds_of(devices: int, store: str, dtype: str, gc_type: str) -> float:
    """Return seconds per window: efficiency below 1 from two devices on."""
    slower = 1.0 if devices == 1 else 1 / EFFICIENCY[store]
    return slower / DTYPE[dtype] / GC[gc_type]


def product(gc_types: tuple[str, ...] = ("none", "2bit"), **fields: Any) -> list[Record]:
    """Return the records of dtype x gc_type x kvstore x devices."""
    found = []
    for dtype, gc_type, store, devices in itertools.product(DTYPE, gc_types, EFFICIENCY, (1, 2)):
        if store == "local" and gc_type != "none":
            continue
        settings = {"dtype": dtype, "gc_type": gc_type, "kvstore": store, "devices": devices}
        seconds = seconds_of(devices, store, dtype, gc_type)
        ranks = devices if store == "dist_sync" else 1
        found.append(
            record(
                [[1, seconds, seconds, seconds]] * ranks, **settings, devices_per_host=2, **fields
            )
        )
    return found


def setting(row: ScalingRow) -> tuple[str, str, str, int]:
    trial = row.trial
    return (
        trial.training.dtype,
        trial.training.gc_type,
        trial.layout.kvstore,
        trial.layout.devices,
    )


def test_every_speed_up_is_over_the_point_with_the_same_other_settings() -> None:
    for row in scaling(product()):
        dtype, gc_type, store, devices = setting(row)
        assert row.device is not None
        assert row.device.base == "local on 1 device"
        faster = GC[gc_type]  # the point without servers has no compression
        efficiency = faster * (1.0 if devices == 1 else EFFICIENCY[store])
        assert row.device.efficiency.value == pytest.approx(efficiency), (dtype, gc_type, store)
        if store == "dist_sync":
            assert row.worker is not None
            expected = 1.0 if devices == 1 else EFFICIENCY[store]
            assert row.worker.efficiency.value == pytest.approx(expected), (dtype, gc_type)


def test_of_two_baselines_the_one_with_equal_windows_counts() -> None:
    fast, slow = (
        [record([[1, one * n, one * n]], kvstore="local", devices=n, windows=w) for n in (1, 2)]
        for one, w in ((1.0, 2), (3.0, 20))
    )
    rows = scaling([*fast, *slow])
    assert [row.device and row.device.efficiency.value for row in rows] == [1, 0.5, 1, 0.5]


def test_tables_have_a_column_for_every_varying_field() -> None:
    rows = scaling(product(lr=0.1) + product(lr=0.2))
    names, cells = filled_table(rows)
    assert names[:6] == ["network", "kvstore", "dtype", "lr", "gc_type", "devices"]
    assert cells[-1][:6] == ["alexnet", "dist_sync", "bfloat16", "0.2", "2bit", "2"]
    names, cells = short_table(rows)
    assert names[:7] == ["network", "kvstore", "dtype", "lr", "gc_type", "devices", "images/s"]
    assert len({tuple(one[:6]) for one in cells}) == len(rows)
    found = list(csv.DictReader(io.StringIO(table_csv(rows))))
    assert (found[-1]["dtype"], found[-1]["gc_type"], found[-1]["lr"]) == (
        "bfloat16",
        "2bit",
        "0.2",
    )


def test_a_figure_has_a_line_per_value_of_the_first_field_and_names_the_others() -> None:
    records = product()
    study = run(records)
    assert [(line.what, len(line.rows)) for line in lines(study.rows)] == [
        ("local, dtype float32", 2),
        ("local, dtype bfloat16", 2),
        ("dist_sync, dtype float32", 2),
        ("dist_sync, dtype bfloat16", 2),
    ]
    varied = "lines by dtype; drawn with gc_type none (in the table only: 2bit)"
    assert varied in caption(study).splitlines()
    assert f"L{varied[1:]}. " in paper_caption(study, "throughput")
    one_setting = run([one for one in records if one.trial.training.gc_type == "none"])
    assert "lines by" not in caption(one_setting)


def test_texts_name_points_by_the_fields_that_distinguish_them() -> None:
    lost = [
        one for one in product(lr=0.2) if setting(scaling([one])[0])[1:] == ("none", "local", 2)
    ]
    failed = [dataclasses.replace(one, status="failed", message="why") for one in lost]
    noted = (Note(NoteKind.BUSY_BASELINE, {"share": 0.5}),)
    busy, *others = product(lr=0.1)
    study = run([dataclasses.replace(busy, notes=noted), *others, *failed])
    assert len({row.name for row in study.rows}) == len(study.rows)
    text = summary(study)
    assert "alexnet local x2 (lr 0.2) (failed)" in text
    assert "alexnet local bfloat16 x2 (lr 0.2) (failed)" in text
    below = caption(study).splitlines()
    assert "no result: alexnet local x2 (lr 0.2), alexnet local bfloat16 x2 (lr 0.2)" in below
    # The line on values that are not drawn replaces a list of their points.
    assert not [line for line in below if line.startswith("in the table only")]
    earlier = [summarize(one) for one in lost]
    (item,) = earlier_items(earlier, {row.trial.key: row.name for row in study.rows})
    assert item.parts[0].startswith("alexnet local x2 (lr 0.2), repeat 1, ")
    lines_of = [*failure_lines(failed, "r", 1, trials=[row.trial for row in study.rows])]
    assert lines_of[0] == "alexnet local x2 (lr 0.2): failed: why"


def test_a_store_that_lacks_the_drawn_values_is_drawn_with_its_own() -> None:
    records = [one for one in product() if setting_of(one) != ("dist_sync", "none")]
    found = {line.what: len(line.rows) for line in lines(run(records).rows)}
    assert list(found) == [f"{store}, dtype {one}" for store in EFFICIENCY for one in DTYPE]


def setting_of(one: Record) -> tuple[str, str]:
    return one.trial.layout.kvstore, one.trial.training.gc_type


def test_upstream_csv_has_all_lines() -> None:
    assert len(upstream_tables(scaling(product()))) == 6


def test_the_page_has_the_columns_and_says_what_is_drawn(tmp_path: Path) -> None:
    text = page(load(stored(tmp_path, *product()).parent))
    assert "lines by dtype; drawn with gc_type none (in the table only: 2bit)" in text
    assert re.findall(r"<th[^>]*><button[^>]*>(.*?)</button>", text)[2:4] == ["dtype", "gc_type"]
    assert len(re.findall("<td>2bit\\b", text)) == 4
    assert len(unpacked(text, "data")["run"]["lines"]) == 4


def test_runs_that_differ_in_one_setting_pair_by_all_others() -> None:
    a, b = run(product(lr=0.1), name="a"), run(product(lr=0.2), name="b")
    found = compare(a, b)
    assert len(found.changes) == len(a.rows)
    for change in found.changes:
        assert change.a
        assert change.b
        assert setting(change.a) == setting(change.b)


def test_exports_label_points_by_the_fields_that_vary() -> None:
    points = export_points(run(product(lr=0.1) + product(lr=0.2)))
    labels = {tuple(sorted(one.labels.items())) for one in points}
    assert len(labels) == len(points)
    assert {one.labels["lr"] for one in points} == {"0.1", "0.2"}
    assert all("lr" not in one.labels for one in export_points(run(product())))
