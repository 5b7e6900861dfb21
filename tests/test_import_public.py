"""Shapes of logs that stand in public issues and repositories, as strangers would try them."""

from pathlib import Path
from typing import Any

import pytest

from bench.notes import NoteKind
from results.rates import rate_of
from tests.log_samples import speedometer, steps, upstream
from tests.test_import_samples import MEANS, PS, SLOW, made, point, refused
from tests.test_imports import kinds


@pytest.mark.parametrize(
    "line",
    [
        "Epoch[0] Batch [50]\tSpeed: 116.49 samples/sec\tTrain-Perplexity=25.415275",
        "Iter[0] Batch [200]  loss 5.6081595, ppl 272.6419879",
    ],
)
def test_speeds_beside_a_perplexity_are_of_sentences(tmp_path: Path, line: str) -> None:
    # MXNet's rnn examples in Python, Scala and Perl; word_lm prints it in a line of its own.
    assert "got those of sentences (perplexity" in refused(
        tmp_path, speedometer(SLOW), line, network="lstm", devices=1, batch_per_device=32
    )


@pytest.mark.parametrize("cost", ["25.629", "25629"])
def test_scalas_time_of_an_epoch_is_in_milliseconds(tmp_path: Path, cost: str) -> None:
    # MXNet for Scala and Clojure: whole milliseconds where Python prints seconds.
    speeds = speedometer((220.0, 221.0, 219.0, 220.0, 221.0, 220.0, 220.0), "")
    texts = [speeds, f"Epoch[0] Time cost={cost}"]
    record = made(tmp_path, *texts, network="resnet-18", devices=1, batch_per_device=40)
    assert NoteKind.LOG_DOUBTFUL not in kinds(record)


def test_bytepss_processes_have_a_device_each_and_not_the_store_they_print(tmp_path: Path) -> None:
    # BytePS's train_imagenet_byteps.py prints upstream's kv_store, which it does not use.
    arguments = upstream().replace(", gpus='0'", "")
    texts = ["BytePS launching worker", arguments, speedometer(SLOW)]
    asked = made(tmp_path, *texts, devices=1)
    assert point(asked) == ("resnet-50", "byteps", "float32", 1, 64)
    assert "add --devices N" in refused(tmp_path, *texts)
    assert "speeds of 2 workers, found those of 1" in refused(tmp_path, *texts, devices=2)
    other = speedometer([0.99 * speed for speed in SLOW])
    pairs = zip(texts[-1].split("\n"), other.split("\n"), strict=True)
    mixed = "\n".join(line for pair in pairs for line in pair)
    both = made(tmp_path, texts[0], arguments, arguments, mixed, workers=2)
    assert point(both) == ("resnet-50", "byteps", "float32", 2, 64)
    assert rate_of(both) == pytest.approx(1.99 * rate_of(asked), rel=0.01)


def test_the_prefix_of_kubeflows_launcher_hides_no_arguments(tmp_path: Path) -> None:
    # tf-operator's benchmark image: each line of a worker begins "INFO|time|file|27| ".
    text = "\n".join(
        f"INFO|2018-01-30T16:01:05|/opt/launcher.py|27| {line}"
        for line in f"{PS}\n{steps(MEANS, 2 * MEANS[-1])}".split("\n")
    )
    assert "add --devices N" in refused(tmp_path, text)
    assert point(made(tmp_path, text, devices=2)) == (
        *("inception-v3", "parameter_server", "float32"),
        *(2, 32),
    )


def test_a_total_of_two_processes_is_not_booked_on_one_device(tmp_path: Path) -> None:
    # An excerpt from one of two workers of tf_cnn_benchmarks, without its head.
    text = steps(MEANS, 2 * MEANS[-1])
    asked: dict[str, Any] = {"network": "resnet-50", "batch_per_device": 32}
    assert "total is that of 2 processes" in refused(tmp_path, text, **asked, devices=1)
    assert rate_of(made(tmp_path, text, **asked, devices=2)) > 1.9 * MEANS[-1]


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("INFO:root:batch size  1, dtype float32, images/sec: 248.4", "does not train"),
        ("[Epoch 3][Batch 99], LR: 2.8E-04, Speed: 28.997 samples/sec, Obj=3", "detectors"),
        ("[Iteration 9] Trained 72 records. Throughput is 2091.8 records/second. Loss", "BigDL"),
    ],
)
def test_more_logs_of_other_tools_are_refused_by_name(tmp_path: Path, text: str, tool: str) -> None:
    assert tool in refused(tmp_path, text)
