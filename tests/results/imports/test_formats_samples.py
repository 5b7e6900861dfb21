"""Logs of many tools: stated values are read, missing ones are requested."""

from pathlib import Path
from typing import Any

import pytest

from bench.notes import NoteKind
from results.imports.windows import discarded_notes
from results.rates import rate, rate_of
from tests.support.runs.imported_logs import (
    FAST,
    MEANS,
    PS,
    SLOW,
    kinds,
    made,
    note,
    point,
    refused,
)
from tests.support.runs.log_samples import (
    clock,
    horovod_job,
    mll,
    mllog,
    namespace,
    old_speedometer,
    speedometer,
    steps,
    tf_cnn,
    tf_steps,
    timed_speedometer,
    upstream,
)

DGX = [
    mll(0, "submission_benchmark", "resnet"),
    mll(1, "submission_platform", "1xDGX-1 with V100"),
    mll(2, "run_start"),
    horovod_job(range(8)),
    mll(4, "global_batch_size", 1664),
    mll(4, "epoch_start", epoch_num=1),
    timed_speedometer(FAST, 1664),
]
SIXES = steps([6.0] * 11, 48.05)


# MXNet


def test_the_ranks_of_a_horovod_job_are_its_devices_and_one_prints_the_jobs_speed(
    tmp_path: Path,
) -> None:
    record = made(tmp_path, *DGX)
    assert point(record) == ("resnet-50", "horovod", "float16", 8, 208)
    assert rate_of(record) == pytest.approx(11220, rel=0.002)
    assert kinds(record) >= {NoteKind.LOG_JOB_SPEED, NoteKind.LOG_TIMES_AGREE}
    assert made(tmp_path, *DGX, devices=8, network="resnet-50").trial == record.trial


def test_a_device_count_against_all_ranks_of_a_job_is_refused(tmp_path: Path) -> None:
    assert "devices = 8 in the log, but --devices gives 16" in refused(tmp_path, *DGX, devices=16)


def test_a_horovod_job_of_whose_ranks_one_prints_arguments_is_asked_for_its_devices(
    tmp_path: Path,
) -> None:
    texts = [horovod_job([0]), timed_speedometer(FAST, 1664)]
    assert "Add --devices N" in refused(tmp_path, *texts)
    record = made(tmp_path, *texts, devices=8)
    assert point(record)[1:] == ("horovod", "float16", 8, 208)
    assert rate_of(record) == pytest.approx(11220, rel=0.002)


def test_the_batch_of_a_job_says_how_many_ranks_it_has(tmp_path: Path) -> None:
    texts = [mll(4, "global_batch_size", 1536 * 40), horovod_job([0], batch_size=40)]
    texts += [timed_speedometer([1.642e6] * 6, 1536 * 40)]
    record = made(tmp_path, *texts)
    assert (record.trial.layout.devices, record.trial.training.batch_per_device) == (1536, 40)
    assert rate_of(record) == pytest.approx(1.642e6, rel=0.01)
    assert "devices = 1536 in the log, but --devices gives 8" in refused(
        tmp_path, *texts, devices=8
    )


def test_ranks_that_a_jobs_batch_contradicts_are_refused(tmp_path: Path) -> None:
    texts = [mll(4, "global_batch_size", 3328), horovod_job(range(8))]
    text = refused(tmp_path, *texts, timed_speedometer(FAST, 1664))
    assert "8 ranks print their arguments, but the global batch of 3328" in text
    texts.append(timed_speedometer(FAST, 3328))
    assert made(tmp_path, *texts, devices=16).trial.layout.devices == 16


def test_a_torn_line_among_many_ranks_changes_nothing(tmp_path: Path) -> None:
    whole = horovod_job(range(64), batch_size=39)
    torn = whole.replace("batch_size=39", "batch_size=3", 1)
    record = made(tmp_path, torn, timed_speedometer([99000.0] * 6, 64 * 39))
    assert point(record)[1:] == ("horovod", "float16", 64, 39)


def test_horovods_ranks_without_numbers_do_not_count_a_job(tmp_path: Path) -> None:
    text = horovod_job(range(8)).replace("Node[", "Proc[")
    assert "Add --devices N" in refused(tmp_path, text, speedometer(FAST))
    assert made(tmp_path, text, speedometer(FAST), devices=8).trial.layout.devices == 8


def test_horovods_ranks_that_print_their_own_speeds_by_their_times_are_added(
    tmp_path: Path,
) -> None:
    texts = [horovod_job(range(2))]
    texts += [timed_speedometer([1400.0, 1410.0, 1405.0, 1402 + n], 208, n) for n in range(2)]
    record = made(tmp_path, *texts)
    assert rate_of(record) == pytest.approx(2 * 1405, rel=0.005)
    job = [horovod_job(range(2))]
    job += [timed_speedometer([1400.0, 1410.0, 1405.0, 1402 + n], 416, n) for n in range(2)]
    assert rate_of(made(tmp_path, *job)) == pytest.approx(1405, rel=0.005)


def test_horovods_ranks_whose_speeds_may_be_of_either_are_asked_for(tmp_path: Path) -> None:
    texts = [horovod_job(range(2))]
    texts += [speedometer([1400.0 + rank, 1410, 1405], f"Node[{rank}] ") for rank in range(2)]
    assert "Add --speeds-of workers or --speeds-of job" in refused(tmp_path, *texts)


def test_a_line_per_metric_is_one_window(tmp_path: Path) -> None:
    arguments = namespace(batch_size=256, depth=50, gpus="2,3,4,5,6,7", kv_store="local")
    metrics = ["accuracy", "top_k_accuracy_5"]
    texts = [f"INFO:root:{arguments}", old_speedometer(SLOW, metrics, "INFO:root:")]
    record = made(tmp_path, *texts, network="resnet-50")
    once = made(tmp_path, texts[0], old_speedometer(SLOW, metrics[:1]), network="resnet-50")
    assert record.ranks[0].images == once.ranks[0].images
    assert rate_of(record) == pytest.approx(rate_of(once))
    assert point(record)[1:4] == ("local", "float32", 6)
    assert record.trial.global_batch == 256


def test_four_metrics_with_blanks_for_tabs_are_one_window(tmp_path: Path) -> None:
    metrics = [f"top_k_accuracy_{k}" for k in (1, 5, 10, 20)]
    text = old_speedometer(SLOW, metrics, f"{clock(0)} Node[0] ").replace("\t", "    ")
    record = made(tmp_path, text, network="inception-v4", devices=8, batch_per_device=32)
    assert rate_of(record) == pytest.approx(93.3, rel=0.01)


def test_workers_cannot_be_made_of_metrics_or_copies(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"network": "resnet-50", "batch_per_device": 32, "devices": 2}
    text = old_speedometer(SLOW, ["accuracy", "top_k_accuracy_5"])
    assert "got that of 1" in refused(tmp_path, text, **asked, workers=2)
    copies = "\n".join(f"{line}\n{line}" for line in speedometer(SLOW).splitlines())
    assert "the lines are copies" in refused(tmp_path, copies, **asked, workers=2)


def test_mixed_workers_that_each_print_two_metrics_are_told_apart(tmp_path: Path) -> None:
    lines = [
        line
        for n in range(1, 5)
        for speed in (100.0 + n, 99.0 + n)
        for metric in ("accuracy", "top_k_accuracy_5")
        for line in [f"Epoch[0] Batch [{20 * n}]\tSpeed: {speed} samples/sec\tTrain-{metric}=0.1"]
    ]
    asked: dict[str, Any] = {"network": "resnet-50", "batch_per_device": 32, "devices": 2}
    record = made(tmp_path, *lines, **asked, workers=2)
    assert rate_of(record) == pytest.approx(2 * 102, rel=0.01)


def test_speedometers_of_2015_count_iterations(tmp_path: Path) -> None:
    text = speedometer(SLOW).replace("Epoch[", "Iter[")
    record = made(tmp_path, text, network="inception-bn", devices=1, batch_per_device=32)
    assert rate_of(record) == pytest.approx(93.3, rel=0.01)


def test_gluoncvs_arguments_say_devices_and_the_batch_of_each(tmp_path: Path) -> None:
    arguments = namespace(batch_size=128, dtype="float16", model="resnet50_v1", num_gpus=8)
    lines = speedometer([4700.5, 4849.1, 4852.2, 4848.0], metrics=["top1-err", "lr"])
    whole = "INFO:root:[Epoch 0] speed: 4801 samples/sec\ttime cost: 267.4"
    record = made(tmp_path, f"INFO:root:{arguments}", lines, whole)
    assert point(record) == ("resnet50_v1", "unknown", "float16", 8, 128)
    assert rate_of(record) == pytest.approx(4849, rel=0.002)
    assert note(record, NoteKind.LOG_OWN_TOTAL).figures == {"rate": 4801.0}


def test_gluons_example_without_gpus_trains_on_one_cpu(tmp_path: Path) -> None:
    arguments = namespace(batch_size=32, model="mobilenet1.0", num_gpus=0, kvstore="device")
    record = made(tmp_path, f"Starting new task:, {arguments}", speedometer(SLOW))
    assert (
        record.trial.layout.device,
        record.trial.layout.devices,
        record.trial.layout.kvstore,
    ) == ("cpu", 1, "device")


@pytest.mark.parametrize(
    ("dtype", "known"),
    [
        ("float16", "float16"),
        ("fp16", "float16"),
        ("<class 'numpy.float16'>", "float16"),
        ("bfloat16", "bfloat16"),
        ("float32", "float32"),
    ],
)
def test_any_namespace_says_the_number_format(tmp_path: Path, dtype: str, known: str) -> None:
    text = upstream().replace("dtype='float32'", f"dtype={dtype if '<' in dtype else repr(dtype)}")
    assert (
        made(tmp_path, text.replace("start with", "my"), speedometer(SLOW)).trial.training.dtype
        == known
    )


def test_a_number_format_that_is_unknown_is_refused(tmp_path: Path) -> None:
    text = refused(tmp_path, upstream(dtype="int8"), speedometer(SLOW))
    assert "dtype: expected one of float32, float16, bfloat16, got 'int8'" in text


def test_float16_that_is_only_mentioned_is_asked_for(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"network": "resnet-50", "devices": 1, "batch_per_device": 32}
    text = refused(tmp_path, "Using fp16 with loss scale 128", speedometer(SLOW), **asked)
    assert "line 1 mentions a 16-bit data type" in text
    assert "Add --dtype NAME" in text
    for option in ("--use_fp16=False", "--fp16-allreduce"):
        record = made(tmp_path, f"python train.py {option}", speedometer(SLOW), **asked)
        assert record.trial.training.dtype == "float32"


def test_a_command_line_in_the_log_says_the_number_format(tmp_path: Path) -> None:
    text = "+ python tf_cnn_benchmarks.py --use_fp16=True --num_gpus=4"
    record = made(tmp_path, text, tf_cnn(), steps(MEANS, 628.5))
    assert record.trial.training.dtype == "float16"
    text = "python train_imagenet.py --dtype float16 --kv-store horovod"
    asked: dict[str, Any] = {"network": "resnet-50", "devices": 1, "batch_per_device": 32}
    assert made(tmp_path, text, speedometer(SLOW), **asked).trial.training.dtype == "float16"


def test_one_workers_log_of_a_distributed_job_does_not_count_its_workers(tmp_path: Path) -> None:
    texts = [upstream(kv_store="dist_sync", gpus="0,1,2,3"), speedometer(SLOW)]
    assert "Add --devices N" in refused(tmp_path, *texts)
    assert "expected throughput of 2 workers" in refused(tmp_path, *texts, devices=8)
    assert made(tmp_path, *texts, devices=4).trial.workers == 1
    record = made(tmp_path, *texts, devices=8, hosts=2, speeds_of="one-worker")
    assert (record.trial.workers, record.trial.training.batch_per_device) == (2, 16)
    assert rate_of(record) == pytest.approx(2 * 93.3, rel=0.01)


def test_mixed_nodes_of_a_distributed_job_are_all_of_it(tmp_path: Path) -> None:
    arguments = upstream(kv_store="dist_device_sync", gpus="0,1").removeprefix("INFO:root:")
    texts = [f"{clock(0)} Node[{node}] {arguments}" for node in range(3)]
    texts += [speedometer([100.0 + node, 101, 102, 103], f"Node[{node}] ") for node in range(3)]
    record = made(tmp_path, *texts)
    assert (record.trial.layout.devices, record.trial.workers) == (6, 3)
    assert rate_of(record) == pytest.approx(3 * 102, rel=0.01)
    assert "got that of 2" in refused(tmp_path, *texts[:-1])


def test_a_store_for_one_process_has_the_devices_of_that_process(tmp_path: Path) -> None:
    texts = [upstream(gpus="0,1,2,3", kv_store="nccl"), speedometer(SLOW)]
    assert made(tmp_path, *texts).trial.layout.devices == 4
    assert "devices = 4 in the log, but --devices gives 8" in refused(tmp_path, *texts, devices=8)


@pytest.mark.parametrize("store", ["local", "local_allreduce_device"])
def test_the_devices_that_training_starts_with_are_those_of_its_process(
    tmp_path: Path, store: str
) -> None:
    start = "INFO:root:Start training with [gpu(0), gpu(1)]"
    asked: dict[str, Any] = {"network": "resnet-50", "batch_per_device": 64}
    texts = [start, old_speedometer(SLOW, ["accuracy", "top_k_accuracy_5"])]
    assert made(tmp_path, *texts, **asked).trial.layout.devices == 2
    assert " = 2 in the log" in refused(tmp_path, *texts, **asked, devices=1)
    texts.insert(0, namespace(kv_store=store, batch_size=128))
    assert "devices = 2 in the log" in refused(tmp_path, *texts, **asked, devices=4)


def test_speeds_of_sentences_are_refused(tmp_path: Path) -> None:
    text = speedometer(SLOW).replace("samples/sec", "samples/sec 3057.69 tokens/sec")
    assert "line 1: expected throughput in images, got tokens" in refused(
        tmp_path, text, network="resnet-50", devices=1, batch_per_device=8
    )


def test_arguments_of_two_jobs_in_one_file_are_refused(tmp_path: Path) -> None:
    texts = [upstream(), speedometer(SLOW[:3]), upstream(batch_size=128), speedometer(SLOW[3:])]
    assert "lines: expected one worker batch, got 64 and 128" in refused(tmp_path, *texts)


def test_a_log_that_says_benchmark_has_no_real_images(tmp_path: Path) -> None:
    assert made(tmp_path, upstream(benchmark=1), speedometer(SLOW)).trial.mode == "synthetic"


# tf_cnn_benchmarks


def test_the_total_of_parameter_servers_is_not_one_workers(tmp_path: Path) -> None:
    text = refused(tmp_path, PS, SIXES)
    assert "Add --devices N" in text
    record = made(tmp_path, PS, SIXES, devices=8, hosts=8)
    assert point(record)[:2] == ("inception-v3", "parameter_server")
    assert (
        record.trial.layout.devices,
        record.trial.hosts,
        record.trial.training.batch_per_device,
    ) == (8, 8, 32)
    assert rate_of(record) == pytest.approx(48, rel=0.01)
    assert note(record, NoteKind.LOG_OWN_TOTAL).figures == {"rate": 48.05}


def test_one_worker_of_parameter_servers_is_whole_if_its_total_is_its_own(tmp_path: Path) -> None:
    record = made(tmp_path, PS, steps([6.0] * 11, 6.01))
    assert record.trial.layout.devices == 1
    assert rate_of(record) == pytest.approx(6.0)


def test_newer_workers_print_the_batch_of_the_job(tmp_path: Path) -> None:
    head = tf_cnn(
        batches="Batch size:  4096 global\n             1024.0 per device",
        devices=["/job:worker/replica:0/task:0/gpu:0"],
        variables="distributed_replicated",
    )
    record = made(tmp_path, head, steps([120.0] * 9, 540.3))
    assert (record.trial.layout.devices, record.trial.training.batch_per_device) == (4, 1024)
    assert rate_of(record) == pytest.approx(480, rel=0.01)
    assert made(tmp_path, head, steps([120.0] * 9)).trial.layout.devices == 4


@pytest.mark.parametrize("gap", ["             ", ""])
def test_a_batch_per_device_is_read_with_and_without_leading_blanks(
    tmp_path: Path, gap: str
) -> None:
    batches = f"Batch size:  1792 global\n{gap}224 per device"
    devices = [f"/gpu:{n}" for n in range(8)]
    record = made(tmp_path, tf_cnn(batches=batches, devices=devices), steps(MEANS, 628.5))
    assert point(record) == ("resnet-50", "replicated", "float32", 8, 224)


def test_devices_that_are_listed_count_if_no_batch_per_device_is_printed(tmp_path: Path) -> None:
    record = made(tmp_path, tf_cnn(batches="Batch size:  256 global"), steps(MEANS, 628.5))
    assert (record.trial.layout.devices, record.trial.training.batch_per_device) == (4, 64)


@pytest.mark.parametrize("mode", ["forward-only", "forward only", "evaluation"])
def test_a_log_that_is_not_of_training_is_refused(tmp_path: Path, mode: str) -> None:
    text = refused(tmp_path, tf_cnn(mode=mode), steps(MEANS, 628.5))
    assert f"Mode: expected training, got '{mode}'" in text


@pytest.mark.parametrize("prefix", ["[1,{}]<stdout>:", ""])
def test_ranks_of_tf_cnn_under_horovod_print_their_own_speed_and_one_total(
    tmp_path: Path, prefix: str
) -> None:
    head = tf_cnn(
        batches="Batch size:  64 global\n             32 per device",
        devices=["horovod/gpu:0", "horovod/gpu:1"],
        variables="horovod",
    )
    ranks = [
        "\n".join(
            prefix.format(rank) + line
            for line in f"{head}\n{steps([speed + rank / 10 for speed in MEANS], 1257.3)}".split(
                "\n"
            )
        )
        for rank in range(2)
    ]
    mixed = [
        line for pair in zip(*(one.split("\n") for one in ranks), strict=True) for line in pair
    ]
    record = made(tmp_path, *mixed)
    assert point(record) == ("resnet-50", "horovod", "float32", 2, 32)
    assert rate_of(record) == pytest.approx(2 * 628.6, rel=0.005)


def test_two_processes_without_a_common_store_are_refused(tmp_path: Path) -> None:
    mixed = [line for line in steps(MEANS, 628.5).split("\n") for _ in range(2)]
    assert "expected step 1 once, got 2 lines" in refused(tmp_path, tf_cnn(), *mixed)
    two = [tf_cnn(), steps(MEANS, 628.5)] * 2
    assert "Cut the log into one file per run" in refused(tmp_path, *two)


def test_a_mean_that_is_torn_within_its_number_does_not_count(tmp_path: Path) -> None:
    whole = steps(MEANS, 0)
    record = made(tmp_path, tf_cnn(), f"{whole}\n70\timages/sec: 62")
    assert rate_of(record) == pytest.approx(rate_of(made(tmp_path, tf_cnn(), whole)))
    assert note(record, NoteKind.LOG_SPOILT).figures["count"] == 1


def test_parameter_servers_on_one_machine_are_one_process(tmp_path: Path) -> None:
    record = made(tmp_path, tf_cnn(variables="parameter_server"), steps(MEANS, 628.5))
    assert record.trial.layout.devices == 4
    assert rate_of(record) == pytest.approx(628.7, rel=0.005)


def test_absl_prefixes_and_times_at_the_end_of_lines_do_no_harm(tmp_path: Path) -> None:
    prefix = "I0813 06:22:40.158328 140613224986432 benchmark_cnn.py:2020] "
    head = "\n".join(prefix + line for line in tf_cnn().split("\n"))
    lines = steps(MEANS, 628.5).replace("7.0", "7.0 1597299785")
    record = made(tmp_path, head, lines)
    assert (record.trial.layout.devices, record.trial.training.batch_per_device) == (4, 64)


# Interval, total, windows


def test_rounding_is_in_the_interval(tmp_path: Path) -> None:
    record = made(tmp_path, PS, SIXES, devices=8)
    found = rate([record])
    assert found.low is not None
    assert found.high is not None
    assert found.low < 48 * 5.95 / 6
    assert found.high > 48 * 6.05 / 6
    assert note(record, NoteKind.LOG_ROUNDED).figures["share"] == pytest.approx(0.05 / 6)
    fine = made(tmp_path, tf_cnn(), steps(MEANS, 628.5))
    assert NoteKind.LOG_ROUNDED not in kinds(fine)


def test_a_slow_first_block_that_does_not_count_is_named(tmp_path: Path) -> None:
    text = speedometer([900.0, 310.0, 312.0, 998.0, *[1000.0 + n % 3 for n in range(16)]])
    record = made(tmp_path, upstream(), text)
    (found,) = discarded_notes(record)
    assert found.kind is NoteKind.WINDOWS_DROPPED
    assert found.figures["dropped"] >= 2
    assert found.figures["change"] > 1


# TensorFlow's examples


def test_cifar10s_multi_gpu_script_prints_the_batch_of_one_gpu(tmp_path: Path) -> None:
    text = tf_steps(24464.4, 128 / 24464.4, 256 / 24464.4, count=30)
    asked: dict[str, Any] = {"network": "cifar10", "devices": 2}
    record = made(tmp_path, text, **asked, batch_per_device=128)
    assert rate_of(record) == pytest.approx(24464, rel=0.01)
    assert (record.trial.worker_batch, record.trial.layout.devices) == (256, 2)
    assert NoteKind.LOG_DOUBTFUL not in kinds(record)


def test_inceptions_gpus_share_the_batch(tmp_path: Path) -> None:
    text = tf_steps(60.0, 64 / 60, 64 / 60)
    asked: dict[str, Any] = {"network": "inception-v3", "devices": 2}
    assert "a batch of 64, either per device or for all 2" in refused(tmp_path, text, **asked)
    record = made(tmp_path, text, **asked, batch_per_device=32)
    assert rate_of(record) == pytest.approx(60, rel=0.01)
    text = refused(tmp_path, text, **asked, batch_per_device=100)
    assert "--batch-per-device gives 100" in text
    assert "--worker-batch" not in text


def test_workers_of_the_distributed_inception_are_added(tmp_path: Path) -> None:
    worker = "INFO:tensorflow:Worker {}: "
    texts = [tf_steps(30.0 + n, 32 / (30 + n), 32 / 30, worker.format(n)) for n in range(2)]
    record = made(tmp_path, *texts, network="inception-v3", devices=2)
    assert point(record)[1:] == ("parameter_server", "float32", 2, 32)
    assert rate_of(record) == pytest.approx(60, rel=0.02)


# MLPerf


def v06(first: int = 1, blocks: int = 6, seconds: float = 164.0) -> list[str]:
    """Return blocks of v0.6 within one millisecond, in any order."""
    texts = [
        mll(0, "submission_benchmark", "resnet"),
        mll(0, "submission_platform", "tpu-v3-32"),
        mll(1, "global_batch_size", 4096),
        mll(2, "num_train_examples", 1281167),
        mll(3, "block_start", first_epoch_num=first, epoch_count=4),
    ]
    for n in range(blocks):
        end = 3 + (n + 1) * seconds
        place = first + 4 * n
        texts += [mll(end, "eval_accuracy", 0.3 + 0.1 * n, epoch_num=place)]
        texts += [mll(end, "block_start", first_epoch_num=place + 4, epoch_count=4)]
        texts += [mll(end, "block_stop", first_epoch_num=place)]
    return texts


def test_lines_of_mlperf_v06_are_read_and_their_blocks_kept_apart(tmp_path: Path) -> None:
    record = made(tmp_path, *v06(), devices=32)
    assert rate_of(record) == pytest.approx(4 * 1281167 / 164)
    assert len(record.ranks[0].seconds) == 6
    assert record.trial.layout.device == "other"
    assert record.trial.training.batch_per_device == 128
    assert record.accuracy == pytest.approx(0.8)
    assert NoteKind.LOG_EVALUATION in kinds(record)
    assert "Add --devices N" in refused(tmp_path, *v06())


def test_evaluation_within_a_block_is_not_training(tmp_path: Path) -> None:
    texts = [mllog(0, "submission_benchmark", "resnet"), mllog(0, "global_batch_size", 2496)]
    texts += [mllog(0, "train_samples", 1281167)]
    for n in range(5):
        begin = 550.0 * n
        texts += [mllog(begin, "block_start", first_epoch_num=1 + 4 * n, epoch_count=4)]
        texts += [mllog(begin + 531, "eval_start", epoch_num=4 + 4 * n)]
        texts += [mllog(begin + 540, "eval_stop", epoch_num=4 + 4 * n)]
        texts += [mllog(begin + 540, "eval_accuracy", 0.5, epoch_num=4 + 4 * n)]
        texts += [mllog(begin + 540, "block_stop", first_epoch_num=1 + 4 * n)]
    record = made(tmp_path, *texts, devices=8)
    assert rate_of(record) == pytest.approx(4 * 1281167 / 531)
    assert NoteKind.LOG_EVALUATION not in kinds(record)


def test_mlperf_jobs_of_mxnet_say_number_format_and_store_in_their_arguments(
    tmp_path: Path,
) -> None:
    texts = [mllog(0, "submission_benchmark", "resnet"), mllog(1, "global_batch_size", 3264)]
    texts += [horovod_job(range(8), batch_size=408, network="resnet-v1b-stats-fl")]
    for n in range(6):
        texts += [mllog(10 + 57 * n, "epoch_start", epoch_num=n + 1)]
        texts += [mllog(66.9 + 57 * n, "epoch_stop", epoch_num=n + 1)]
    record = made(tmp_path, *texts)
    assert point(record) == ("resnet-50", "horovod", "float16", 8, 408)
    assert rate_of(record) == pytest.approx(1281167 / 56.9)
    with_speeds = made(tmp_path, *texts, timed_speedometer([22519.0] * 6, 3264))
    assert point(with_speeds) == point(record)
    assert rate_of(with_speeds) == pytest.approx(22519)


def test_a_benchmark_without_images_is_refused(tmp_path: Path) -> None:
    texts = [mllog(0, "submission_benchmark", "bert"), mllog(1, "throughput", 12000.0, step=1)]
    assert "got the benchmark 'bert'" in refused(tmp_path, *texts, devices=8)


# Horovod


def test_horovods_synthetic_benchmark_says_its_own_total(tmp_path: Path) -> None:
    texts = ["Model: resnet50", "Batch size: 32", "Number of GPUs: 16"]
    texts += [f"Iter #{n}: {108.0 + n % 3 / 10:.1f} img/sec per GPU" for n in range(10)]
    texts += ["Img/sec per GPU: 108.1 +-1.2", "Total img/sec on 16 GPU(s): 1729.4 +-19.6"]
    record = made(tmp_path, *texts)
    assert point(record) == ("resnet-50", "horovod", "float32", 16, 32)
    assert note(record, NoteKind.LOG_OWN_TOTAL).figures == {"rate": 1729.4}
    assert rate_of(record) == pytest.approx(1729.4, rel=0.001)


def test_bytepss_benchmark_prints_horovods_lines(tmp_path: Path) -> None:
    texts = ["BytePS launching worker", "Model: resnet50", "Batch size: 32", "Number of GPUs: 2"]
    texts += [f"Iter #{n}: {108.0 + n:.1f} img/sec per GPU" for n in range(4)]
    assert made(tmp_path, *texts).trial.layout.kvstore == "byteps"


def test_a_persons_word_on_whose_images_speeds_count_is_taken(tmp_path: Path) -> None:
    record = made(tmp_path, PS, SIXES, devices=8, speeds_of="job")
    assert rate_of(record) == pytest.approx(6)


def test_six_numbers_in_a_line_are_no_horovod_log(tmp_path: Path) -> None:
    texts = ["GPU memory per device:"] + [f"{n} 0.3 1024.0 6.5 7.9 0.1" for n in range(9)]
    assert "expected a line with a throughput in one of the formats" in refused(tmp_path, *texts)


# Logs that are not read


@pytest.mark.parametrize(
    ("text", "tool"),
    [
        ("Epoch: [0][ 10/5005]\tTime  0.312 ( 0.523)\tLoss 6.9e+00", "PyTorch's ImageNet example"),
        ("Epoch: [0]  [  10/1251]  eta: 0:45:01  lr: 0.1  img/s: 312.4", "torchvision's"),
        ("DLL 2020-10-01 10:00:00.1 - Epoch: 0 Iteration: 20  train.ips : 780.1", "DLLogger"),
        ("INFO:tensorflow:global step 10: loss = 2.7 (0.435 sec/step)", "TF-Slim"),
        ("INFO:tensorflow:global_step/sec: 3.21", "a TensorFlow Estimator"),
        (":::MLPv0.5.0 resnet 1541638105.5 (a.py:1) train_epoch: 0", "MLPerf v0.5"),
        ("Batch [50] Speed: 26130.01 samples/sec Train-accuracy=0.11", "MXNet for R"),
        ("TimeHistory: 23.4 seconds, 1200.3 examples/second between", "official models"),
        ("I0101 solver.cpp:239] Iteration 20 (3.2 iter/s, 6.1s/20 iters), loss = 6", "Caffe"),
        ("INFO:root:batch size 32, image/sec: 1233.4", "does not train"),
        ("2016: [20 batches out of 1563] (29.7 examples/sec; 1.684sec/batch)", "an evaluation"),
    ],
)
def test_logs_of_other_tools_are_refused_by_name(tmp_path: Path, text: str, tool: str) -> None:
    asked: dict[str, Any] = {"network": "resnet-50", "devices": 1, "batch_per_device": 32}
    found = refused(tmp_path, "Starting", text, text, **asked)
    assert tool in found
    assert "which mxscale cannot import" in found


def test_a_name_that_a_spreadsheet_computes_is_refused(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"devices": 1, "batch_per_device": 32}
    for name in ("=1+1", "+cmd", "-x", "@sum"):
        text = refused(tmp_path, speedometer(SLOW), network=name, **asked)
        assert "a formula character of spreadsheets" in text


def test_a_device_may_be_no_gpu(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"network": "resnet-50", "devices": 1, "batch_per_device": 32}
    assert made(tmp_path, speedometer(SLOW), device="other", **asked).trial.layout.device == "other"
