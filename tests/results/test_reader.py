"""Reports of records that are damaged, foreign or many."""

import dataclasses
import json
import math
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from plots.markdown import document
from plots.results_csv import results_frame
from plots.tables.scaling import show
from results import reader, store
from results.cost.energy import power
from results.errors import StoreError
from results.record import Record, emit, parse, parse_rate_record
from results.repeat import summarize
from results.run import load
from results.scaling import scaling
from results.store import UnreadableLine
from tests.support.paths import ROOT
from tests.support.runs.records import record

pytestmark = pytest.mark.pythons


def several(count: int = 4) -> list[Record]:
    """Return points of 1, 2, 4 ... devices."""
    return [record([[1.0, 1.0, 1.0]], devices=2**n) for n in range(count)]


def kept(folder: Path, *lines: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "records.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


def test_a_line_that_is_no_record_is_left_out_and_told_with_its_place(tmp_path: Path) -> None:
    lines = [emit(one) for one in several()]
    lines[2] = json.dumps(json.loads(lines[2]) | {"schema": 99})
    run = load(kept(tmp_path, *lines))
    assert [row.trial.layout.devices for row in run.rows] == [1, 2, 8]
    (trouble,) = run.troubles
    assert trouble.startswith("records.jsonl:3: ")
    assert "schema 99, written by a newer version" in trouble


def test_a_torn_last_line_is_told_and_one_before_others_is_not(tmp_path: Path) -> None:
    lines = [emit(one) for one in several()]
    run = load(kept(tmp_path, *lines[:3], lines[3][:-20]))
    assert [row.trial.layout.devices for row in run.rows] == [1, 2, 4]
    (trouble,) = run.troubles
    assert trouble.startswith("records.jsonl:4: incomplete, as after an interrupted write. ")
    assert load(kept(tmp_path, *lines[:3], lines[3][:-20], lines[3])).troubles == ()


@pytest.mark.parametrize("cut", [3, 500, -20])
def test_a_torn_line_in_the_middle_is_told_unless_its_record_was_made_again(
    tmp_path: Path, cut: int
) -> None:
    lines = [emit(one) for one in several()]
    torn = lines[1][:cut]
    run = load(kept(tmp_path, lines[0], torn, *lines[2:]))
    assert [row.trial.layout.devices for row in run.rows] == [1, 4, 8]
    assert [one.split(",")[0] for one in run.troubles] == ["records.jsonl:2: incomplete"]
    # Two records on one line, as after an edit, are none.
    run = load(kept(tmp_path, lines[0], torn + lines[2], lines[3]))
    assert [row.trial.layout.devices for row in run.rows] == [1, 8]
    assert len(run.troubles) == 1
    again = load(kept(tmp_path, lines[0], torn, *lines[1:]))
    assert len(again.rows) == 4
    assert len(again.troubles) == (1 if cut == 3 else 0)  # its content is unknown


def test_a_torn_line_of_a_point_that_is_no_longer_asked_for_is_no_trouble(tmp_path: Path) -> None:
    found = several(3)
    lines = [emit(one) for one in found]
    folder = kept(tmp_path, *lines[:2], lines[2][:-20])
    asked = [dataclasses.asdict(one.identity) for one in found]
    (folder / "asked.json").write_text(json.dumps(asked[:2]))
    assert load(folder).complete
    (folder / "asked.json").write_text(json.dumps(asked))
    assert len(load(folder).troubles) == 1
    (folder / "asked.json").write_text(json.dumps(asked[2:]))
    with pytest.raises(StoreError, match="none of its 2 records is of a point"):
        load(folder)


def test_rows_stand_in_the_order_asked_for_whatever_repeats_are_missing(tmp_path: Path) -> None:
    first, second = (
        [record([[1.0, 1.0, 1.0]], devices=n, repeat=one) for one in range(2)] for n in (1, 2)
    )
    asked = [first[0], second[0], first[1], second[1]]
    folder = kept(tmp_path, *(emit(one) for one in asked[1:]))
    identities = [dataclasses.asdict(one.identity) for one in asked]
    (folder / "asked.json").write_text(json.dumps(identities))
    assert [row.trial.layout.devices for row in load(folder).rows] == [1, 2]


def test_windows_of_ages_are_no_record_and_no_warning(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    ages = emit(record([[2.5] * 9], devices=2)).replace("2.5", "1e308")
    run = load(kept(tmp_path, ages, emit(several(1)[0])))
    assert run.troubles
    assert not recwarn.list


def test_where_nothing_can_be_read_the_first_reason_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no readable record; .*jsonl:1: .* \(and 1 more\)"):
        load(kept(tmp_path, "{}", "[]"))


def test_a_large_log_is_read_alike_by_several_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [emit(one) for one in several(8)]
    lines.insert(5, '{"schema": 1}')
    folder = kept(tmp_path, *lines)
    whole = list(reader.read_summaries(folder))
    monkeypatch.setattr(store, "LARGE_BYTES", 1)
    monkeypatch.setattr(store, "PART_BYTES", 2500)
    monkeypatch.setattr(store, "PIECE_BYTES", 300)
    assert list(reader.read_summaries(folder)) == whole
    assert [str(one) for one in whole if isinstance(one, UnreadableLine)] == [
        f"{folder / 'records.jsonl'}:6: unreadable record: Object missing required field `identity`"
    ]


@pytest.mark.parametrize("store", ["local", "dist_sync", "dist_async"])
def test_a_bare_record_says_what_the_whole_one_does(store: str) -> None:
    windows = [[1.0, 1.2, 1.1, 1.0], [1.1, 1.0, 1.3, 1.0]][: 1 if store == "local" else 2]
    line = emit(record(windows, devices=len(windows), kvstore=store))
    whole, bare = parse(line), parse_rate_record(line)
    assert whole is not None
    assert bare is not None
    assert isinstance(bare, Record) is (store == "dist_async")
    assert summarize(bare) == summarize(whole)
    assert parse_rate_record(line[:-9]) is None


def test_a_bare_record_packs_its_numbers_and_a_whole_one_keeps_tuples() -> None:
    line = emit(record([[1.0, 1.2, 1.1]], devices=1)).replace("1.2", "2")
    whole, bare = parse(line), parse_rate_record(line)
    assert whole is not None
    assert bare is not None
    assert bare.ranks[0].seconds == array("d", [1, 2, 1.1])
    assert whole.ranks[0].seconds == (1, 2, 1.1)
    assert parse(emit(whole)) == whole


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Yield the path to each value inside a JSON value; of long lists, to the first."""
    inside: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value[:1]))
    return [way, *(one for name, part in inside for one in places(part, (*way, name)))]


WHOLE = json.loads(emit(record([[1.0, 1.0, 1.0], [1.0, 1.1, 1.0]], devices=2, kvstore="dist_sync")))
WHOLE["ranks"][0]["facts"] = {"variables": {"OMP_NUM_THREADS": "1"}, "instructions": "avx2"}
READINGS = [{"at": 1.0 + n, "machine": "m", "energy": {"rapl": 90.0 * n}} for n in (0, 100)]
WHOLE |= {"commands": {"worker-0": "python"}, "machines": {"h": READINGS}}
ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 3.5, math.nan, math.inf, 10**400, "", "<b>x", [], [None], {}, {"a": []}]
)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(way=st.sampled_from(places(WHOLE)[1:]), odd=ODD)
@example(way=("machines", "h", 0, "at"), odd=10**400)
@example(way=("machines", "h", 0, "energy", "rapl"), odd=10**400)
@example(way=("machines", "h", 0, "at"), odd=math.nan)
def test_a_value_of_the_wrong_kind_anywhere_is_told_or_harmless(
    tmp_path: Path, way: tuple[Any, ...], odd: Any
) -> None:
    changed = json.loads(json.dumps(WHOLE))
    inner = changed
    for name in way[:-1]:
        inner = inner[name]
    inner[way[-1]] = odd
    good = record([[1.0, 1.0, 1.0]], devices=4)
    run = load(kept(tmp_path, json.dumps(changed), emit(good)))
    assert good.trial in [row.trial for row in run.rows]
    assert len(run.rows) == 2 or run.troubles
    assert len(results_frame(run.rows)) == len(run.rows)
    assert document(run)
    watts = [power(one) for row in run.rows for one in row.repeats]
    assert all(isinstance(found, str) or math.isfinite(found["rapl"]) for found in watts)


def test_energy_is_read_where_every_value_is_right() -> None:
    found = parse(json.dumps(WHOLE))
    assert found is not None
    assert power(summarize(found)) == {"rapl": 90.0}


def test_points_that_mean_nothing_are_told(tmp_path: Path) -> None:
    changed = json.loads(emit(record([[1.0, 1.0, 1.0]])))
    changed["trial"]["devices_per_worker"] = 0
    run = load(kept(tmp_path, json.dumps(changed), *(emit(one) for one in several(1))))
    assert len(run.rows) == 1
    assert "records.jsonl:1: " in run.troubles[0]


def test_records_of_schema_1_are_read() -> None:
    rows = load(ROOT / "docs" / "runs" / "demo").rows
    assert all(row.rate for row in rows)
    assert {one.source for row in rows for one in row.repeats} == {""}


def test_figures_from_elsewhere_are_told_apart() -> None:
    theirs = dataclasses.replace(record([[1.0, 1.0, 1.0]]), source="imported from a.log")
    (row,) = scaling([theirs])
    assert row.note_text == "not measured by mxscale: imported from a.log"


def test_what_could_not_be_read_stands_above_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [emit(one) for one in several()]
    run = load(kept(tmp_path, *lines[:3], lines[3][:-20]))
    show(run)
    for text in (document(run), capsys.readouterr().out):
        assert 0 < text.index("UNREADABLE, skipped: records.jsonl") < text.index("speed-up")
