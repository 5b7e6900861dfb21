"""Results of other tools' logs, by format."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import SpecError
from bench.notes import NoteKind
from results.imports.point import LogDescription, network
from results.imports.record import import_logs
from results.rates import rate_of
from results.record import Record, emit, parse
from tests.support.paths import LOGS
from tests.support.runs.imported_logs import SPEED, kinds, note, read
from tests.support.runs.log_samples import mll

pytestmark = pytest.mark.pythons

RESNET: dict[str, Any] = {"network": "resnet-50", "devices": 1, "batch_per_device": 10}


def of(name: str, *more: str, **asked: Any) -> Record:
    """Return the record of a log in tests/logs."""
    return import_logs([LOGS / name, *(LOGS / one for one in more)], LogDescription(**asked)).record


def made(folder: Path, *texts: str, format_: str = "auto", **asked: Any) -> Record:
    """Return the record of logs of these lines, one per worker."""
    asked = RESNET | asked
    paths = [folder / f"worker-{number}.log" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text + "\n")
    return import_logs(paths, LogDescription(**asked), format_).record


def test_the_horovod_study_is_read_by_the_time_of_the_whole_jobs() -> None:
    asked: dict[str, Any] = {"network": "resnet-50", "batch_per_device": 256}
    small = of("horovod-32.log", devices=32, hosts=4, **asked)
    large = of("horovod-64.log", devices=64, hosts=8, **asked)
    assert rate_of(small) == pytest.approx(21_800, rel=0.01)
    assert rate_of(large) == pytest.approx(42_950, rel=0.001)  # of the whole job
    assert rate_of(large) / rate_of(small) == pytest.approx(1.97, rel=0.001)
    assert small.trial.layout.kvstore == "horovod"
    assert small.ranks[0].images == (14081 * 8192,)
    # 50 steps of 32 x 256 images lie between its lines; what was cut out belongs to none.
    by_lines = of("horovod-32.log", devices=32, hosts=4, warmup=2, **asked)
    assert set(by_lines.ranks[0].images) == {50 * 8192}


def test_the_k40_log_says_what_it_trained_at_and_its_batch() -> None:
    record = of("tf-inception-k40.log", network="inception-v3", devices=1)
    assert rate_of(record) == pytest.approx(9.5, abs=0.05)
    assert record.trial.training.batch_per_device == 32
    assert record.started == "2016-03-07T12:24:59.922898"
    assert NoteKind.LOG_TIMES_AGREE in kinds(record)


def test_workers_of_inception_are_added_and_a_speed_of_zero_is_told_by_its_seconds() -> None:
    text = "INFO:tensorflow:Worker {}: 2016-04-13 01:58:40.342404: step {}, loss = 12.97{}"
    first = "(0.0 examples/sec; 65.428  sec/batch)"
    log = read("tf-inception", [text.format(0, 0, first), text.format(1, 0, first)])
    assert [(one.worker, one.seconds) for one in log.stretches] == [("0", 65.428), ("1", 65.428)]
    assert log.stated == {"kvstore": "parameter_server"}


def test_speeds_of_mxnets_workers_are_added_window_by_window() -> None:
    record = of("mxnet-worker-0.log", "mxnet-worker-1.log")
    trial = record.trial
    assert (trial.label, trial.layout.kvstore, trial.layout.devices, trial.workers) == (
        "resnet-50",
        "dist_sync",
        4,
        2,
    )
    assert (trial.training.batch_per_device, trial.mode, record.accuracy) == (32, "real", 0.114)
    # Twenty batches of 64 a window, which lasts as long as its slower worker takes.
    assert [rank.images[0] for rank in record.ranks] == [1280, 1280]
    assert rate_of(record) == pytest.approx(254, rel=0.01)


def test_both_formats_of_the_speedometer_say_the_same(tmp_path: Path) -> None:
    old = "\n".join(SPEED.format(20 * n, 100.0 + n) for n in range(1, 5))
    new = "\n".join(SPEED.format(f"{20 * n - 20}-{20 * n}", 100.0 + n) for n in range(1, 5))
    one, other = made(tmp_path, old), made(tmp_path, new)
    assert one.ranks == other.ranks
    assert one.ranks[0].images == (200,) * 4


def test_speeds_of_whole_epochs_are_windows_if_there_are_no_others(tmp_path: Path) -> None:
    epochs = [
        f"[1,0]<stderr>:INFO:root:Epoch[{n}] Rank[0] Batch[1251]\tTime cost=411.2\tTrain=0.1\n"
        f"[1,0]<stderr>:INFO:root:Epoch[{n}]\tSpeed: {3114.92 + n} samples/sec"
        for n in range(5)
    ]
    asked: dict[str, Any] = {"devices": 8, "batch_per_device": 128}
    record = made(tmp_path, "\n".join(epochs), **asked)
    assert rate_of(record) == pytest.approx(3117.4, rel=1e-4)
    assert record.ranks[0].images == (1251 * 1024,) * 5
    batches = "\n".join(f"[1,0]<stderr>:{SPEED.format(20 * n, 3000.0)}" for n in range(1, 5))
    record = made(tmp_path, batches + "\n" + epochs[0], **asked)
    assert rate_of(record) == pytest.approx(3000)
    assert note(record, NoteKind.LOG_OWN_TOTAL).figures == {"rate": 3114.92}


def test_mixed_lines_go_to_their_nodes_and_torn_ones_are_counted() -> None:
    record = of("mxnet-mixed.log", network="resnet-50", devices=12, hosts=3, batch_per_device=16)
    assert len(record.ranks) == 3
    # Of six windows, node 1 lacks the fourth and node 2 the fifth.
    assert {len(rank.seconds) for rank in record.ranks} == {4}
    assert rate_of(record) == pytest.approx(750)
    assert note(record, NoteKind.LOG_LEFT_OUT).figures == {"count": 4}
    assert note(record, NoteKind.LOG_SPOILT).figures["count"] == 3


def test_mixed_lines_without_names_need_the_number_of_workers(tmp_path: Path) -> None:
    text = "\n".join(SPEED.format(n, speed) for n in (20, 40, 60) for speed in (100.0, 100.0))
    with pytest.raises(SpecError, match="--workers"):
        made(tmp_path, text)
    record = made(tmp_path, text, devices=2, workers=2)
    assert rate_of(record) == pytest.approx(200)


def test_a_missing_worker_is_never_overlooked(tmp_path: Path) -> None:
    text = "\n".join(SPEED.format(n, 100.0) for n in (20, 40, 60))
    with pytest.raises(SpecError, match="expected throughput of 2 workers, got that of 1"):
        made(tmp_path, text, devices=2, hosts=2)


def test_one_workers_log_stands_for_all_only_when_that_is_said(tmp_path: Path) -> None:
    text = "\n".join(SPEED.format(n, 100.0) for n in (20, 40, 60))
    record = made(tmp_path, text, devices=2, hosts=2, speeds_of="one-worker")
    assert rate_of(record) == pytest.approx(200)
    assert NoteKind.LOG_SPEEDS in kinds(record)
    whole = made(tmp_path, text, devices=2, hosts=2, speeds_of="job")
    assert rate_of(whole) == pytest.approx(100)


def test_asynchronous_workers_keep_all_their_windows(tmp_path: Path) -> None:
    fast = "\n".join(SPEED.format(20 * n, 200.0) for n in range(1, 9))
    slow = "\n".join(SPEED.format(20 * n, 100.0) for n in range(1, 5))
    record = made(tmp_path, fast, slow, devices=2, hosts=2, kvstore="dist_async")
    assert [len(rank.seconds) for rank in record.ranks] == [8, 4]
    assert rate_of(record) == pytest.approx(300)


def test_a_speedometer_that_does_not_wait_is_doubted(tmp_path: Path) -> None:
    text = "\n".join(SPEED.format(20 * n, 10_000.0) for n in range(1, 6))
    record = made(tmp_path, f"{text}\nEpoch[0] Time cost=12.000")
    assert note(record, NoteKind.LOG_DOUBTFUL).figures["factor"] == pytest.approx(100, rel=0.01)


def test_times_on_lines_are_held_against_speeds(tmp_path: Path) -> None:
    text = "\n".join(
        f"2018-03-05 10:00:{10 * n:02d},000 {SPEED.format(20 * n, 200.0)}" for n in range(1, 6)
    )
    record = made(tmp_path, text)
    assert note(record, NoteKind.LOG_DOUBTFUL).figures["factor"] == pytest.approx(10)


@given(st.lists(st.floats(0.05, 0.07), min_size=2, max_size=40))
def test_means_since_the_first_step_become_the_windows_between(seconds: list[float]) -> None:
    means = [
        f"{n}\timages/sec: {64 * n / sum(seconds[:n])!r} +/- 0.0 (jitter = 0.0)\t7.9"
        for n in range(1, len(seconds) + 1)
    ]
    found = read("tf-cnn", means).stretches
    assert [64 / one.rate for one in found] == pytest.approx(seconds, rel=1e-6)


def test_tf_cnn_says_all_of_its_point() -> None:
    record = of("tf-cnn.log")
    trial = record.trial
    assert (
        trial.label,
        trial.layout.kvstore,
        trial.layout.devices,
        trial.training.batch_per_device,
        trial.mode,
    ) == (
        "resnet-50",
        "replicated",
        4,
        64,
        "synthetic",
    )
    assert rate_of(record) == pytest.approx(4037, rel=0.005)


def test_a_process_of_tf_cnn_among_others_counts_for_all_of_them() -> None:
    texts = ["Batch size:  256 global", "             64 per device", "Variables:   horovod"]
    texts += ["10\timages/sec: 500.0 +/- 0.0 (jitter = 0.0)\t7.9", "total images/sec: 1990.00"]
    assert read("tf-cnn", texts).stated["shares"] == 4


def test_horovods_benchmark_gives_an_interval_of_its_iterations() -> None:
    record = of("horovod-synthetic.log")
    assert (record.trial.layout.devices, record.trial.training.batch_per_device) == (4, 32)
    assert rate_of(record) == pytest.approx(1329.4, rel=0.001)
    assert len(record.ranks[0].seconds) == 10


def test_epochs_of_mlperf_become_windows() -> None:
    record = of("mlperf-epochs.log")
    assert (
        record.trial.label,
        record.trial.layout.devices,
        record.trial.training.batch_per_device,
    ) == (
        "resnet-50",
        16,
        208,
    )
    assert record.ranks[0].images == (1_281_167,) * 12
    assert rate_of(record) == pytest.approx(1_281_167 / 60)
    assert record.accuracy == pytest.approx(0.6)


def test_what_mlperf_tracks_comes_before_times_of_epochs() -> None:
    record = of("mlperf-throughput.log", devices=8)
    assert rate_of(record) == pytest.approx(12_347, rel=0.001)
    assert note(record, NoteKind.LOG_SPOILT).figures["count"] == 1


@pytest.mark.parametrize("key", ["train_samples", "preproc_num_train_examples", ""])
def test_epochs_of_mlperf_are_those_of_imagenet_if_nothing_says_their_images(
    tmp_path: Path, key: str
) -> None:
    texts = [mll(0, "submission_benchmark", "resnet"), mll(0, "global_batch_size", 86016)]
    texts += [mll(1, key, 1281167)] if key else []
    for n in range(5):
        texts += [mll(2 + n, "epoch_start", epoch_num=n), mll(2.8 + n, "epoch_stop", epoch_num=n)]
    record = made(tmp_path, "\n".join(texts), network="", devices=2048, batch_per_device=0)
    assert rate_of(record) == pytest.approx(1281167 / 0.8)
    assert record.trial.training.batch_per_device == 42
    assumed = [one for one in record.notes if one.kind is NoteKind.LOG_ASSUMED]
    assert any("images per epoch" in str(one.figures) for one in assumed) == (not key)


def test_a_record_of_a_log_is_one_that_the_store_reads() -> None:
    record = of("tf-cnn.log")
    assert parse(emit(record)) == record
    assert record.source == "imported from tf-cnn.log (tf-cnn)"


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[2Jb", "\ud800"])
def test_a_name_that_would_break_a_table_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="network: expected printable characters, got '"):
        of("horovod-32.log", **RESNET | {"network": name})


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("resnet50", ("resnet", 50)),
        ("ResNet50", ("resnet", 50)),
        ("resnet-152", ("resnet", 152)),
        ("vgg16", ("vgg", 16)),
        ("inception3", ("inception-v3", None)),
        ("resnet50_v1.5", ("resnet50_v1.5", None)),
        ("BERT large", ("BERT large", None)),
    ],
)
def test_our_networks_are_known_by_any_spelling_and_others_as_they_are(
    name: str, known: tuple[str, int | None]
) -> None:
    assert network(name) == known
