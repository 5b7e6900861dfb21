"""Randomly damaged logs: read, or rejected in one line."""

import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import SpecError
from bench.logs.formats import FORMATS
from bench.logs.lines import line
from bench.logs.log import SPEEDS_OF
from bench.notes import texts
from results.imports.point import LogDescription
from results.imports.record import import_logs
from results.imports.windows import discarded_notes
from results.rates import rate_of
from tests.support.paths import LOGS
from tests.support.runs.imported_logs import read
from tests.support.runs.log_samples import (
    horovod_job,
    mll,
    mllog,
    old_speedometer,
    speedometer,
    steps,
    tf_cnn,
    tf_steps,
    timed_speedometer,
    upstream,
)

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


POOL = "\n".join(
    (
        upstream(),
        upstream(kv_store="dist_sync", gpus="0,1"),
        horovod_job(range(3)),
        mll(4, "global_batch_size", 624),
        mll(5, "epoch_start", epoch_num=1),
        mll(9, "epoch_stop", epoch_num=1),
        mllog(1, "block_start", first_epoch_num=1, epoch_count=2),
        mllog(6, "eval_start"),
        mllog(8, "eval_stop"),
        mllog(9, "block_stop", first_epoch_num=1),
        mllog(1, "train_samples", 1281167),
        mllog(1, "tracked_stats", '{"throughput": 5.0}'),
        speedometer([100.0, 101.5, 99.0, 0.0], "Node[1] "),
        timed_speedometer([1400.0, 1410.0, 1405.0], 416),
        old_speedometer([92.0, 93.0], ["accuracy", "top_k_accuracy_5"]),
        tf_cnn(),
        tf_cnn(devices=["/job:worker/task:1/gpu:0"], variables="parameter_server"),
        tf_cnn(devices=["horovod/gpu:0"], variables="horovod"),
        steps([6.0, 6.0, 6.1], 48.0),
        steps([6.0, 6.1, 6.0], 12.0, "[1,1]<stdout>:"),
        tf_steps(60.0, 64 / 60, 64 / 60, count=4),
        "Step Epoch Speed Loss FinLoss LR",
        "50 0.3 22243.7 6.586 7.919 0.10353",
        "100 0.6 22241.7 6.586 7.919 0.10353",
        "Finished in 12.5",
        "Model: ResNet50\nBatch size: 32\nNumber of GPUs: 4\nIter #0: 330.1 img/sec per GPU",
        "Total img/sec on 4 GPU(s): 1329.4 +-11.6",
        "INFO:root:Start training with [gpu(0), gpu(1)]",
        "INFO:root:[Epoch 0] speed: 4801 samples/sec\ttime cost: 267.4",
        "INFO:root:Epoch[0] Time cost=inf",
    )
).split("\n")


@given(
    st.lists(st.sampled_from(POOL), min_size=1, max_size=40),
    st.fixed_dictionaries(
        {},
        optional={
            "network": st.just("resnet-50"),
            "devices": st.integers(1, 9),
            "hosts": st.integers(1, 3),
            "workers": st.integers(1, 3),
            "batch_per_device": st.sampled_from([1, 32, 64]),
            "speeds_of": st.sampled_from(sorted(SPEEDS_OF)),
            "warmup": st.integers(0, 2),
            "kvstore": st.sampled_from(["horovod", "dist_sync", "dist_async"]),
        },
    ),
    st.sampled_from(["auto", *FORMATS]),
)
def test_any_mixture_of_lines_is_a_record_with_a_rate_or_one_line(
    lines: list[str], asked: dict[str, Any], format_: str
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "mixed.log"
        path.write_text("\n".join(lines))
        try:
            record = import_logs([path], LogDescription(**asked), format_).record
        except SpecError as error:
            text = str(error)
        else:
            text = "; ".join(texts(record.notes))
            assert 0 < rate_of(record) < math.inf
            assert discarded_notes(record) is not None
    assert "\n" not in text
