"""Logs that are damaged, in ways of chance: read, or refused in one line."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import SpecError
from results.imports.formats import FORMATS
from results.imports.lines import line
from tests.test_imports import LOGS, read

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda some: (
        st.lists(some, max_size=2)
        | st.dictionaries(st.sampled_from(["throughput", "samples_count", "step"]), some)
    ),
)
KEYS = [
    "epoch_start",
    "epoch_stop",
    "train_samples",
    "throughput",
    "tracked_stats",
    "eval_accuracy",
]


@given(st.lists(st.tuples(st.sampled_from(KEYS), JSON, JSON, JSON), max_size=8))
def test_whatever_events_of_mlperf_hold_only_true_speeds_come_of_them(
    events: list[tuple[str, object, object, object]],
) -> None:
    names = ("key", "value", "time_ms", "metadata")
    texts = [f":::MLLOG {json.dumps(dict(zip(names, event, strict=True)))}" for event in events]
    assert all(0 < (one.seconds or one.rate) < math.inf for one in read("mlperf", texts).stretches)


@given(st.sampled_from(sorted(LOGS.glob("*.log"))), st.data())
def test_logs_cut_and_joined_anywhere_are_read_or_refused(path: Path, data: st.DataObject) -> None:
    text = path.read_text()
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    lines = (text[:first] + text[last:]).splitlines()
    for format_ in FORMATS:
        try:
            log = read(format_, lines)
        except SpecError:
            continue
        assert all((one.seconds or one.rate) > 0 for one in log.stretches)


@pytest.mark.parametrize(
    ("prefix", "worker"),
    [
        ("", ""),
        ("[1,3]<stdout>:", "3"),
        ("[3]<stderr>:", "3"),
        ("Sat Nov  7 22:04:05 2026[1,3]<stdout>:", "3"),
        ("[node02 worker 3] ", "node02 worker 3"),
        ("  3: ", "3"),
    ],
)
def test_the_prefix_of_a_launcher_names_the_worker_and_is_taken_off(
    prefix: str, worker: str
) -> None:
    found = line(1, f"\x1b[32m{prefix}50 0.3 22243.7\x1b[0m\r\n")
    assert (found.worker, found.text) == (worker, "50 0.3 22243.7")
