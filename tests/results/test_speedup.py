"""Every point against one device, one full host and one worker through its store."""

import csv
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context

from bench.errors import SpecError
from bench.notes import NoteKind
from results.record import Record
from results.run import load
from results.scaling import ScalingRow, scaling, with_chosen_baseline
from results.speedup import parse_baseline
from tasks.report import report_build, report_show
from tests.support.programs.commands import refusal
from tests.support.runs.records import record
from tests.support.runs.stores import stored


def point(kvstore: str, devices: int, seconds: float, **fields: Any) -> Record:
    """Return a point with two devices per host, one per worker; `seconds` per window."""
    whole = {"devices": devices, "devices_per_host": 2, "kvstore": kvstore, **fields}
    workers = devices if "dist" in kvstore else 1
    return record([[1, seconds, seconds, seconds]] * workers, **whole)


def sweep(**fields: Any) -> list[Record]:
    """Return 1 and 2 devices without servers, 1 to 4 with them: 8 images per device."""
    return [
        point("local", 1, 1.0),
        point("local", 2, 1.25),
        point("dist_sync", 1, 2.0, **fields),
        point("dist_sync", 2, 2.0, **fields),
        point("dist_sync", 4, 2.5, **fields),
    ]


def test_a_point_of_several_hosts_has_all_three_bases() -> None:
    last = scaling(sweep())[-1]
    found = {
        against.base: (against.speedup.value, round(against.efficiency.value, 6))
        for against in (last.device, last.host, last.worker)
    }
    assert found == {
        "local on 1 device": (1.6, 0.4),
        "local on 2 devices": (1.0, 0.5),
        "dist_sync on 1 device": (3.2, 0.8),
    }


def test_an_oversubscribed_host_is_no_full_host() -> None:
    records = [replace(one, emulated=one.trial.layout.devices > 1) for one in sweep()]
    rows = scaling(records)
    assert [row.host for row in rows] == [None] * 5
    kinds = [{note.kind for note in row.notes} for row in rows]
    assert [NoteKind.BASELINE_OVERSUBSCRIBED in some for some in kinds] == [
        *(False, True, False, True, True)
    ]
    assert "no efficiency vs 1 host: local x2 is oversubscribed" in rows[-1].note_text


def test_which_bases_apply_depends_on_the_size_and_the_store() -> None:
    rows = scaling(sweep())
    assert [row.device is not None for row in rows] == [True] * 5
    assert [row.host is not None for row in rows] == [False, True, False, True, True]
    assert [row.worker is not None for row in rows] == [False, False, True, True, True]


def test_servers_on_hosts_of_their_own_lose_no_base() -> None:
    last = scaling(sweep(server_hosts=1))[-1]
    assert last.device.base == "local on 1 device"
    assert last.host.base == "local on 2 devices"
    assert last.worker.base == "dist_sync on 1 device"
    (row,) = [
        row
        for row in scaling([*sweep(server_hosts=1)[2:], point("dist_sync", 4, 3.0)])
        if not row.trial.layout.server_hosts
    ]
    assert (row.device, row.host, row.worker) == (None, None, None)


def test_a_full_host_through_a_store_with_servers_elsewhere_is_a_base() -> None:
    rows = scaling(sweep(server_hosts=1)[2:])
    assert rows[-1].host.base == "dist_sync on 2 devices"


def test_a_longer_warm_up_or_measurement_is_no_other_series() -> None:
    rows = scaling(
        [point("local", 1, 1.0), point("dist_sync", 4, 2.0, warmup_windows=2, windows=1)]
    )
    assert rows[-1].device.speedup.value == 2.0


def test_a_worker_with_several_devices_is_the_base_of_its_kind() -> None:
    fields = {"devices_per_worker": 2, "devices_per_host": 2, "kvstore": "dist_sync"}
    rows = scaling(
        [
            record([[1, 1.0, 1.0]], devices=2, **fields),
            record([[1, 2.0, 2.0]] * 2, devices=4, **fields),
        ]
    )
    assert rows[-1].worker.base == "dist_sync on 2 devices"
    assert rows[-1].worker.speedup.value == 1.0
    assert rows[-1].device is None


def test_a_failed_baseline_leaves_cells_empty_with_the_reason() -> None:
    failed = replace(point("local", 2, 1.25), status="failed", message="out of memory", ranks=())
    rows = scaling([point("local", 1, 1.0), failed, *sweep()[2:], point("dist_async", 2, 2.0)])
    for row in rows[2:]:
        assert row.host is None or row.trial.layout.devices < 2
        assert row.device.base == "local on 1 device"
    note, worker = rows[-1].notes
    assert (worker.figures["column"], worker.kind) == ("worker", NoteKind.BASELINE_ABSENT)
    assert (note.figures["column"], note.kind) == ("host", NoteKind.BASELINE_FAILED)
    assert "no efficiency vs 1 host: local x2 has no result (failed)" in rows[-1].note_text


def test_a_baseline_that_is_not_measured_yet_leaves_cells_empty_too(tmp_path: Path) -> None:
    found = [record for record in sweep() if record.trial.name != "alexnet local x2"]
    stored(tmp_path, *found)
    (tmp_path / "asked.json").write_text(
        json.dumps([asdict(one.identity) | {"trial": one.trial.fields} for one in sweep()])
    )
    rows = load(tmp_path).rows
    assert [row.host for row in rows] == [None] * 4
    assert {note.kind for note in rows[-1].notes} == {NoteKind.BASELINE_UNMEASURED}


def test_all_points_of_a_run_have_one_kind_of_baseline() -> None:
    other = [point("dist_sync", n, 2.0, network="tiny") for n in (1, 2, 4)]
    rows = scaling([*sweep(), *other])
    kinds = {row.device.base for row in rows if row.device}
    assert kinds == {"local on 1 device"}
    for row in rows[-2:]:
        assert (row.device, row.host) == (None, None)
        assert {note.kind for note in row.notes} == {NoteKind.BASELINE_OTHER_KIND}
        assert row.worker.base == "dist_sync on 1 device"
    alone = scaling(other)
    assert [row.device.base for row in alone] == ["dist_sync on 1 device"] * 3


def test_which_baseline_is_taken_does_not_depend_on_what_failed() -> None:
    stores = ("local", "device")
    every = [point(store, n, 1.0) for n in (1, 2) for store in stores]
    bases = {row.device.base for row in scaling(every)}
    assert bases == {"local on 1 device"}
    failed = replace(every[0], status="failed", ranks=())
    assert [row.device for row in scaling([failed, *every[1:]])] == [None] * 4


def chosen(records: list[Record], text: str) -> list[ScalingRow]:
    return with_chosen_baseline(scaling(records), parse_baseline(text))


def test_a_chosen_baseline_is_used_for_each_network() -> None:
    networks = ("alexnet", "tiny")
    found = [point("dist_async", n, 2.0, network=name) for name in networks for n in (2, 4)]
    for row in chosen(found, "dist_async x2"):
        speedup = row.trial.layout.devices / 2
        assert row.baseline.speedup.value == pytest.approx(speedup)
        assert row.baseline.efficiency.value == pytest.approx(1)
        assert str(row.baseline.baseline) == "dist_async x2"
        assert row.notes == ()


def bad(kind: str) -> list[Record]:
    """Return two networks; the baseline local x2 of the first is unreliable."""
    four: dict[str, Any] = {"devices_per_host": 4}
    base = point("local", 2, 1.0, **four)
    given = {
        "failed": [replace(base, status="failed", ranks=())],
        "unstable": [point("local", 2, 1.0, precision=0.02, **four)],
        "oversubscribed": [replace(base, emulated=True)],
        "absent": [],
    }[kind]
    if kind == "unstable":
        seconds = (9.0, *(1.0 + 0.2 * n for n in range(9)))
        rank = replace(given[0].ranks[0], seconds=seconds, ends=seconds, images=(16,) * 10)
        given = [replace(given[0], ranks=(rank,))]
    others = [point("local", n, 1.0, network="tiny", **four) for n in (2, 4)]
    return [*given, point("local", 4, 2.0, **four), *others]


@pytest.mark.parametrize("kind", ["failed", "unstable", "oversubscribed", "absent"])
def test_a_network_without_the_chosen_baseline_has_empty_cells_with_the_reason(kind: str) -> None:
    rows = chosen(bad(kind), "local x2")
    row = next(one for one in rows if one.trial.name == "alexnet local x4")
    assert row.baseline is None
    (note,) = [note for note in row.notes if note.figures["column"] == "baseline"]
    assert note.kind == NoteKind(f"baseline-{kind}")
    assert "no speed-up vs the chosen baseline: " in row.note_text
    assert [one.baseline.efficiency.value for one in rows[-2:]] == pytest.approx([1, 1])


@pytest.mark.parametrize(
    "text", ["", "local", "x2", "local x", "local x0", "local x2 x3", "a b x2"]
)
def test_a_baseline_that_names_no_point_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="--speedup-baseline: expected 'KVSTORE xN'"):
        parse_baseline(text)


@pytest.mark.program
def test_reports_are_built_against_a_baseline_of_ones_choice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for devices, seconds in ((32, 1.0), (64, 1.0154)):
        fields = {"devices": devices, "devices_per_host": 8, "kvstore": "dist_device_sync"}
        one = record([[1, seconds, seconds]] * (devices // 8), device="gpu", **fields)
        stored(tmp_path / "run", one)
    run = f"{tmp_path}/run"
    report_build.body(Context(), run=run, speedup_baseline="dist_device_sync x32")
    assert "vs dist_device_sync x32" in capsys.readouterr().out
    report = tmp_path / "run" / "report"
    *_, last = csv.DictReader((report / "results.csv").read_text().splitlines())
    assert (last["baseline"], last["efficiency_device"]) == ("dist_device_sync x32", "")
    assert float(last["efficiency_baseline"]) == pytest.approx(1 / 1.0154)
    assert "(ideal: throughput of dist_device_sync x32, in" in (report / "report.md").read_text()
    assert "ideal from dist_device_sync x32" in (report / "scaling.svg").read_text()
    report_show.body(Context(), run=run, speedup_baseline="dist_device_sync x64")
    assert "vs dist_device_sync x64" in capsys.readouterr().out
    code, line = refusal(report_build, run=run, speedup_baseline="dist_device_sync")
    assert (code, "expected 'KVSTORE xN'" in line) == (2, True)


@pytest.mark.parametrize("text", ["local x" + "9" * 5000, "local x\u0662", "local\nx2", "x2", ""])
def test_a_baseline_that_is_no_store_and_count_is_one_line(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_baseline(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_network_measured_at_one_size_gets_a_reason_for_each_empty_cell() -> None:
    large = point("dist_sync", 4, 2.0, network="tiny")
    small = point("dist_sync", 1, 2.0, network="inception-v3")
    rows = scaling([*sweep(), large, small])
    assert [row.notes for row in rows[:5]] == [()] * 5
    assert {note.figures["column"] for note in rows[5].notes} == {"device"}
    alone = "no speed-up or efficiency: no other point has the same settings"
    assert [row.note_text for row in rows[5:]] == [alone] * 2


def test_a_column_that_is_empty_for_all_points_needs_no_note_on_each() -> None:
    assert scaling([point("dist_sync", 4, 2.0)])[0].notes == ()
