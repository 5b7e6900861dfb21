"""Profiles of all ranks as one trace; files that are no profile are rejected."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from results.errors import StoreError
from results.exports.trace import RankTrace, merged, parse, read, write
from tests.support.runs.traces import OPERATOR, event, profile

RANK = Path("rank0_w.json")


def two() -> list[RankTrace]:
    """Return two ranks with equal numbers of threads and of asynchronous work."""
    return [
        parse(
            profile(
                event("B", 1000 + rank),
                event("b", 1005, pid=OPERATOR, id=9),
                event("e", 1007, pid=OPERATOR, id=9),
                event("E", 1010 + rank),
            ),
            Path(f"rank{rank}_w.json"),
        )
        for rank in (0, 1)
    ]


def test_each_rank_is_a_process_with_its_devices_as_threads() -> None:
    events = list(merged(two(), "clock"))
    names = [(e["pid"], e["args"]["name"]) for e in events if "name" in e.get("args", {})]
    threads = ["cpu/0 thread 1", "operator thread 2"]
    assert names == [(rank, name) for rank in (0, 1) for name in (f"worker rank {rank}", *threads)]
    begun = [(e["pid"], e["tid"]) for e in events if e["ph"] == "B"]
    assert begun == [(0, 1), (1, 1)]
    ids = [(e["pid"], e["tid"], e["id"]) for e in events if e["ph"] in "be"]
    assert ids == [(0, 2, 1), (0, 2, 1), (1, 2, 2), (1, 2, 2)]


def test_times_follow_the_clock_or_begin_together() -> None:
    clock, start = (
        [e["ts"] for e in merged(two(), align) if e["ph"] in "BE"] for align in ("clock", "start")
    )
    assert clock == [0, 10, 1, 11]
    assert start == [0, 10, 0, 10]


def test_a_written_trace_is_read_again_by_any_reader(tmp_path: Path) -> None:
    counter = event("C", 5, args={"bytes": 4, "text": "x", "no": float("inf")})
    for rank in (10, 2):
        (tmp_path / f"rank{rank}_w.json").write_bytes(profile(counter, host=f"node{rank}"))
    traces = read(sorted(tmp_path.iterdir()))
    write(tmp_path / "merged.json", traces, "clock")
    values = json.loads((tmp_path / "merged.json").read_bytes(), parse_constant=pytest.fail)
    counted = [(e["pid"], e["args"]) for e in values["traceEvents"] if e["ph"] == "C"]
    assert counted == [(2, {"bytes": 4}), (10, {"bytes": 4})]
    assert [trace.name for trace in traces] == [
        "worker rank 2 on node2",
        "worker rank 10 on node10",
    ]


def test_names_of_hosts_have_no_control_characters_and_no_other_fields() -> None:
    bad = "a\x1b[2J\u202eb\ud800" + "x" * 300
    found = parse(profile(event("B", name=bad, cat=bad, stack=[bad]), host=bad), RANK)
    (made,) = (one for one in merged([found], "clock") if one["ph"] == "B")
    assert set(made) == {"ph", "name", "cat", "ts", "pid", "tid"}
    for text in (found.name, made["name"], made["cat"]):
        assert text.isprintable()
        assert len(text) <= 300


INVALID: list[tuple[bytes, str]] = [
    (b"{", "not JSON"),
    (b"[" * 100_000, "not JSON"),
    (b"[]", "expected an object with the list traceEvents, got none"),
    (b'{"traceEvents": 1}', "the list traceEvents, got 1"),
    (profile(), "expected at least one event, got none"),
]
EVENTS: list[Any] = [
    *(1, None, {}, event("Z"), event("B", -1), event("B", 2.0**53), event("B", float("nan"))),
    *(event("B", name=1), event("B", tid=[]), event("b", id={}), event("B") | {"ts": "1"}),
    event("B") | {"ph": []},
]


@pytest.mark.parametrize(
    ("content", "expected"),
    [*INVALID, *((profile(one), "traceEvents[2]: expected an event, got") for one in EVENTS)],
)
def test_a_file_that_is_no_profile_is_one_line(content: bytes, expected: str) -> None:
    with pytest.raises(StoreError, match=re.escape(expected)) as raised:
        parse(content, RANK)
    assert str(raised.value).startswith("rank0_w.json: ")
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


def test_files_of_another_name_of_one_rank_or_too_large_are_errors(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="expected a name such as"):
        parse(profile(event("B")), Path("merged.json"))
    paths = [tmp_path / "rank1_a.json", tmp_path / "rank01_b.json"]
    for path in paths:
        path.write_bytes(profile(event("B")))
    with pytest.raises(StoreError, match="expected each rank once, got rank 1 twice"):
        read(paths)
    size = paths[0].stat().st_size
    assert len(read(paths[:1], largest=size)) == 1
    with pytest.raises(StoreError, match=f"at most {size} bytes in the files together, got more"):
        read(paths, largest=size)
    with pytest.raises(StoreError, match="cannot be read"):
        read([tmp_path / "rank3_none.json"])
