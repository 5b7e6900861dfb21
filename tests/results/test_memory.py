"""Peak memory of ranks in summaries, tables, CSV and exports."""

import csv
import dataclasses
import pickle
from typing import Any

from plots.results_csv import table_csv
from plots.tables.training import memory_items
from results.record import Record
from results.repeat import summarize
from results.scaling import scaling
from tests.support.runs.records import record


def ran(*facts: dict[str, Any]) -> Record:
    """Return a job whose ranks reported these facts."""
    one = record([[1.0] * 4] * len(facts), devices=len(facts), kvstore="dist_sync")
    ranks = zip(one.ranks, facts, strict=True)
    return dataclasses.replace(
        one, ranks=tuple(dataclasses.replace(rank, facts=some) for rank, some in ranks)
    )


MEASURED = ran(
    {"peak_memory_bytes": 2_345_000_000, "peak_device_memory_bytes": 4_000_000_000},
    {"peak_memory_bytes": 3_456_000_000, "peak_device_memory_bytes": "much"},
)


def test_the_wide_report_has_the_memory_of_the_ranks() -> None:
    (item,) = memory_items(scaling([MEASURED]))
    assert item.text.endswith(": 2.35 to 3.46 GB of host memory, 4.00 GB of GPU memory")
    assert memory_items(scaling([ran({}, {})])) == []


def test_each_rank_has_its_own_memory() -> None:
    speeds = summarize(MEASURED).rank_speeds
    assert [(one.memory_bytes, one.device_memory_bytes) for one in speeds] == [
        (2_345_000_000, 4_000_000_000),
        (3_456_000_000, None),
    ]


def test_csv_has_both_in_bytes() -> None:
    (row,) = csv.DictReader(table_csv(scaling([MEASURED])).splitlines())
    assert row["peak_memory_bytes"] == "3456000000"
    assert row["peak_device_memory_bytes"] == "4000000000"
    assert "peak_device" not in table_csv(scaling([ran({}, {})]))


def test_speeds_from_another_process_keep_values_and_share_names() -> None:
    speeds = summarize(MEASURED).rank_speeds
    first, second = (pickle.loads(pickle.dumps(speeds)) for _ in range(2))
    assert list(first) == list(second) == list(speeds)
    assert first[0].process is second[0].process


def test_equal_commands_are_kept_once() -> None:
    texts = ["train --network " + "vgg" for _ in range(2)]
    commands = {f"worker-{n}": "".join(list(text)) for n, text in enumerate(texts)}
    kept = summarize(dataclasses.replace(MEASURED, commands=commands)).commands
    assert kept == commands
    assert kept["worker-0"] is kept["worker-1"]
