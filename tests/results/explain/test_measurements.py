"""What a verdict takes from records: windows, probes, servers and links."""

import csv
import dataclasses
import io
from typing import Any

import pytest

from bench.notes import Note, NoteKind
from plots.results_csv import COLUMNS, table_csv
from plots.tables.scaling import filled_table, short_table
from results.explain.measurements import point_measurements
from results.explain.verdict import SHARES, Cause
from results.repeat import summarize
from results.scaling import scaling
from tests.support.runs.records import record
from tests.support.runs.steps import STORE, counters, measured, rows


def test_a_step_is_measured_from_records() -> None:
    found = rows(waits=(0.1, 0.3))[1].verdict.measurements
    assert found.step == pytest.approx(2.0)
    assert found.alone == pytest.approx(1.0)
    assert found.own == pytest.approx(0.91)
    assert found.own_alone == pytest.approx(0.9)
    assert found.input == pytest.approx(0.3)
    assert found.worker_delay == pytest.approx(0.05)
    assert (found.server_cpu, found.server_delay) == pytest.approx((0.2, 0.8))
    assert found.link_bytes == pytest.approx(600_000)
    assert found.other_cores == pytest.approx(0.075)
    assert (found.workers, found.servers, found.hosts) == (2, 2, 2)


def test_the_verdict_reaches_tables_and_results_csv() -> None:
    found = rows()
    assert [row.verdict.cause for row in found] == [Cause.COMPUTE, Cause.SERVER]
    table = list(csv.DictReader(io.StringIO(table_csv(found))))
    assert [one["verdict"] for one in table] == ["compute", "server"]
    assert sum(float(table[1][f"share_{name}"]) for name in SHARES) == pytest.approx(1)
    assert float(table[1]["share_server"]) == pytest.approx(0.495, abs=0.01)
    for names, cells in (filled_table(found), short_table(found)):
        assert [row[names.index("verdict")] for row in cells] == ["compute", "server 50 %"]
    assert [note.kind for note in found[1].notes][-1] == "bound-by-server"


def test_a_slow_rank_is_the_straggler_with_its_host() -> None:
    slow = rows(own=(0.9, 1.9))[1].verdict
    assert slow.cause is Cause.STRAGGLER
    assert (slow.measurements.slow_rank.rank, slow.measurements.slow_rank.host) == (1, "h")
    assert slow.measurements.slow_rank.seconds == pytest.approx(1.0)


def test_records_without_the_fields_are_not_measured() -> None:
    found = scaling([record([[1.0] * 6]), record([[2.0] * 6] * 2, **STORE)])
    assert {row.verdict.cause for row in found} == {Cause.NOT_MEASURED}
    (first, _) = csv.DictReader(io.StringIO(table_csv(found)))
    assert first["verdict"] == "not measured"
    assert all(first[f"share_{name}"] == "" for name in SHARES)
    assert set(COLUMNS[-9:]) == {"verdict", *(f"share_{name}" for name in SHARES)}
    assert "verdict" not in filled_table(found)[0]
    assert "verdict" not in short_table(found)[0]
    assert not any(note.kind.startswith("bound") for row in found for note in row.notes)


@pytest.mark.parametrize(
    ("shares", "found"),
    [({"h": 0.5}, 0.5), ({"other": 0.5}, None), ({"h": "much"}, None), ({}, None)],
)
def test_gpus_count_as_waiting_if_all_hosts_of_workers_say_so(
    shares: dict[str, Any], found: float | None
) -> None:
    one = measured(record([[1.0] * 6]), own=(0.9,), waits=(0.0,))
    kind = NoteKind.LOW_GPU_UTILIZATION
    notes = tuple(Note(kind, {"share": share}, {"host": host}) for host, share in shares.items())
    (row,) = scaling([dataclasses.replace(one, notes=notes)])
    assert row.verdict.measurements.low_gpu_utilization == found
    assert (row.verdict.note.kind == "bound-by-compute-gpu-waits") == bool(found)


def test_a_failed_point_and_a_bandwidth_point_have_no_verdict() -> None:
    failed = record([[1.0] * 6], status="failed")
    moved = record([[1.0] * 6] * 2, **STORE, mode="bandwidth")
    assert [row.verdict for row in scaling([failed, moved])] == [None, None]


@pytest.mark.parametrize(
    "value", [None, -1.0, float("nan"), float("inf"), "many", True, [1], {"x": 1}]
)
def test_counters_of_a_host_that_lies_are_not_measured(value: object) -> None:
    bad = counters(cpu=value, delay=1.0, bytes_in=value, bytes_out=value)
    good = counters(cpu=1.0, delay=0.0, bytes_in=0, bytes_out=0)
    found = rows(machines={"n1": bad, "n2": good})[1].verdict.measurements
    assert (found.server_cpu, found.server_delay) == (None, None)
    machines: Any
    for machines in ({"n1": [{}]}, {"n1": [{"servers": value, "at": value}] * 2}):
        assert rows(machines=machines)[1].verdict.measurements.server_cpu is None


def test_a_baseline_of_another_batch_is_no_step_alone() -> None:
    alone = measured(record([[1.0] * 6], batch_per_device=4), own=(0.9,), waits=(0.0,))
    other = measured(record([[2.0] * 6] * 2, **STORE), own=(0.9, 0.9), waits=(0.0, 0.0))
    assert scaling([alone, other])[1].verdict.measurements.alone is None


def test_bytes_follow_from_the_layout_if_no_interface_was_counted() -> None:
    local = {host: counters(cpu=0.0, delay=0.0, bytes_in=9**9, bytes_out=0) for host in "ab"}
    for both in local.values():
        for each in both:
            each["network"]["interface"] = "lo"
    point = record([[2.0] * 6] * 2, **STORE)
    one = measured(point, own=(0.9, 0.9), waits=(0.0, 0.0), machines=local)
    ranks = tuple(dataclasses.replace(rank, facts={"bytes_each_way": 8000}) for rank in one.ranks)
    (row,) = scaling([dataclasses.replace(one, ranks=ranks)])
    assert row.verdict.measurements.link_bytes == pytest.approx(8000)


def test_a_value_that_one_repeat_lacks_is_not_measured() -> None:
    first = measured(record([[1.0] * 6]), own=(0.9,), waits=(0.0,))
    second = record([[1.0] * 6], repeat=1)
    repeats = [summarize(first), summarize(second)]
    (row,) = scaling([first, second])
    found = point_measurements(repeats, row.rate)
    assert (found.own, found.input, found.alone) == (None, None, None)
