"""Log formats from public issues and repositories."""

from pathlib import Path
from typing import Any

import pytest

from bench.notes import NoteKind
from results.rates import rate_of
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
    mllog,
    namespace,
    speedometer,
    steps,
    tf_cnn,
    timed_speedometer,
    upstream,
)


@pytest.mark.parametrize(
    "line",
    [
        "Epoch[0] Batch [50]\tSpeed: 116.49 samples/sec\tTrain-Perplexity=25.415275",
        "Iter[0] Batch [200]  loss 5.6081595, ppl 272.6419879",
    ],
)
def test_speeds_beside_a_perplexity_are_of_sentences(tmp_path: Path, line: str) -> None:
    # MXNet's rnn examples in Python, Scala and Perl; word_lm prints it in a line of its own.
    assert "got sentences (perplexity" in refused(
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
    assert "Add --devices N" in refused(tmp_path, *texts)
    assert "throughput of 2 workers, got that of 1" in refused(tmp_path, *texts, devices=2)
    other = speedometer([0.99 * speed for speed in SLOW])
    pairs = zip(texts[-1].split("\n"), other.split("\n"), strict=True)
    mixed = "\n".join(line for pair in pairs for line in pair)
    both = made(tmp_path, texts[0], arguments, arguments, mixed, workers=2)
    assert point(both) == ("resnet-50", "byteps", "float32", 2, 64)
    assert rate_of(both) == pytest.approx(1.99 * rate_of(asked), rel=0.01)


@pytest.mark.parametrize(
    "prefix", ["INFO|2018-01-30T16:01:05|/opt/launcher.py|27| ", "2018-09-04T11:27:29.624841024Z "]
)
def test_the_prefixes_of_kubernetes_hide_no_arguments(tmp_path: Path, prefix: str) -> None:
    # The launcher in Kubeflow's image of tf_cnn_benchmarks, and kubectl logs --timestamps.
    lines = f"{PS}\n{steps(MEANS, 2 * MEANS[-1])}".split("\n")
    text = "\n".join(f"{prefix}{line}" for line in lines)
    assert "Add --devices N" in refused(tmp_path, text)
    assert point(made(tmp_path, text, devices=2)) == (
        *("inception-v3", "parameter_server", "float32"),
        *(2, 32),
    )


def test_a_total_of_two_processes_is_not_booked_on_one_device(tmp_path: Path) -> None:
    # An excerpt from one of two workers of tf_cnn_benchmarks, without its head.
    text = steps(MEANS, 2 * MEANS[-1])
    asked: dict[str, Any] = {"network": "resnet-50", "batch_per_device": 32}
    assert "expected 2 devices or more, because the printed total" in refused(
        tmp_path, text, **asked, devices=1
    )
    assert rate_of(made(tmp_path, text, **asked, devices=2)) > 1.9 * MEANS[-1]


def test_a_horovod_argument_is_the_store_and_the_batches_count_its_ranks(tmp_path: Path) -> None:
    # Intel's MXNet of MLPerf v0.7: 32 ranks on CPUs, whose lines have no prefixes.
    rank = namespace(
        model="resnet50_v1b", horovod=True, amp=True, batch_size=128, num_gpus=0, use_rec=True
    )
    speeds = timed_speedometer((786.0, 784.7, 786.2, 787.8, 787.9), 4096).replace("Node[0] ", "")
    texts = [f"[2019-06-18 18:15:30] {rank}"] * 32
    whole = mllog(0, "global_batch_size", 4096)
    record = made(tmp_path, *texts, whole, speeds)
    assert point(record) == ("resnet50_v1b", "horovod", "bfloat16", 32, 128)
    assert record.trial.layout.device == "cpu"
    assert rate_of(record) == pytest.approx(786.6, rel=0.002)
    assert "Add --devices N" in refused(tmp_path, *texts, speeds)
    assert "devices = 32 in the log" in refused(tmp_path, *texts, whole, speeds, devices=8)


def test_sagemakers_prefix_names_the_rank(tmp_path: Path) -> None:
    # SageMaker rewrites the prefix of mpirun.
    head = "\n".join(f"[1,mpirank:{n},algo-{1 + n // 2}]<stdout>:{upstream()}" for n in range(4))
    lines = [
        f"[1,mpirank:{n},algo-{1 + n // 2}]<stderr>:{line}"
        for line in speedometer(SLOW).split("\n")
        for n in range(4)
    ]
    text = "\n".join([head, *lines]).replace("kv_store='device'", "kv_store='dist_sync'")
    record = made(tmp_path, text)
    assert point(record) == ("resnet-50", "dist_sync", "float32", 4, 64)
    assert len(record.ranks) == 4


def test_metadata_in_single_quotes_are_read(tmp_path: Path) -> None:
    # Intel's MXNet of MLPerf v0.7 prints a Python dictionary where others print JSON.
    lines = [
        mllog(0, "submission_benchmark", "resnet"),
        mllog(0, "global_batch_size", 4096),
        mllog(1, "train_samples", 1281167),
        *(mllog(2 + 1700 * n, "epoch_start", epoch_num=n + 1) for n in range(3)),
        *(mllog(1632 + 1700 * n, "epoch_stop", epoch_num=n + 1) for n in range(3)),
    ]
    texts = []
    for line in lines:
        head, name, metadata = line.partition('"metadata": ')
        texts.append(head + name + metadata.replace('"', "'"))
    record = made(tmp_path, *texts, devices=32)
    assert point(record) == ("resnet-50", "unknown", "float32", 32, 128)
    assert rate_of(record) == pytest.approx(1281167 / 1630)


@pytest.mark.parametrize("told", [True, False])
def test_a_block_has_the_epochs_that_an_event_in_it_counts(tmp_path: Path, told: bool) -> None:
    # TensorFlow's reference and Intel's of MLPerf v0.7: the start has a number of its own, and
    # the count is an event. A block that does not say it cannot be taken for one epoch.
    texts = [
        mllog(0, "submission_benchmark", "resnet"),
        mllog(0, "global_batch_size", 3264),
        mllog(0, "train_samples", 1281167),
    ]
    for n in range(3):
        texts.append(mllog(1 + 7000 * n, "block_start", n + 1))
        texts.append(mllog(1 + 7000 * n, "first_epoch_num", 4 * n))
        texts += [mllog(1 + 7000 * n, "epoch_count", 4)] * told
        texts.append(mllog(6574 + 7000 * n, "block_stop", n + 1))
        texts.append(mllog(6574 + 7000 * n, "eval_start"))
        texts.append(mllog(6900 + 7000 * n, "eval_stop"))
    if told:
        assert rate_of(made(tmp_path, *texts, devices=8)) == pytest.approx(4 * 1281167 / 6573)
    else:
        assert "expected lines with a throughput" in refused(tmp_path, *texts, devices=8)


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


@pytest.mark.parametrize(
    ("arguments", "shape", "classes", "compression"),
    [
        ({"image_shape": "3,128,128", "num_classes": 10}, (3, 128, 128), 10, "none"),
        ({"network": "lenet", "image_shape": "1, 28, 28"}, (1, 28, 28), 1000, "none"),
        ({"input_size": 299, "gc_type": "2bit"}, (3, 299, 299), 1000, "2bit"),
        ({"data_shape": "160", "image_shape": "x,y"}, (3, 160, 160), 1000, "none"),
        ({"image_shape": "3,224", "num_classes": 10**30}, (3, 224, 224), 1000, "none"),
    ],
)
def test_arguments_say_image_shape_classes_and_compression(
    tmp_path: Path,
    arguments: dict[str, Any],
    shape: tuple[int, ...],
    classes: int,
    compression: str,
) -> None:
    trial = made(tmp_path, upstream(**arguments), speedometer(SLOW)).trial
    assert (trial.model.image_shape, trial.model.num_classes) == (shape, classes)
    assert trial.training.gc_type == compression


def test_cifar10s_images_have_32_pixels(tmp_path: Path) -> None:
    text = tf_cnn(model="resnet20").replace("imagenet", "cifar10")
    trial = made(tmp_path, text, steps(MEANS, 628.5)).trial
    assert (trial.model.image_shape, trial.model.num_classes) == ((3, 32, 32), 10)


def test_python_2s_texts_are_read_without_their_marks(tmp_path: Path) -> None:
    text = upstream(kv_store="device", dtype="float16").replace("='", "=u'")
    found = point(made(tmp_path, text, speedometer(SLOW)))
    assert found == ("resnet-50", "device", "float16", 1, 64)


@pytest.mark.parametrize("network", ["resnet", "vgg"])
def test_a_network_of_many_depths_without_its_depth_is_asked_for(
    tmp_path: Path, network: str
) -> None:
    arguments = namespace(network=network, gpus="0,1", kvstore="device", batch_size=4)
    assert "Add --network NAME" in refused(tmp_path, arguments, speedometer(SLOW))
    record = made(tmp_path, arguments, speedometer(SLOW), network=f"{network}-101")
    assert record.trial.layout.devices == 2


def test_the_image_shape_of_an_unknown_network_is_named_as_assumed(tmp_path: Path) -> None:
    arguments = namespace(network="r100", gpus="0", kvstore="device", batch_size=4)
    record = made(tmp_path, arguments, speedometer(SLOW))
    assert "image_shape 3,224,224" in note(record, NoteKind.LOG_ASSUMED).figures["what"]
    arguments = namespace(network="r100", gpus="0", batch_size=4, image_shape="3,112,112")
    record = made(tmp_path, arguments, speedometer(SLOW))
    assert "image_shape" not in str(note(record, NoteKind.LOG_ASSUMED).figures["what"])


@pytest.mark.parametrize(
    ("values", "shape", "classes"),
    [
        ({"dataset": "cifar10", "model": "resnet50_v1"}, (3, 32, 32), 10),
        ({"data_type": "cifar100", "network": "resnet-164"}, (3, 32, 32), 100),
        ({"model": "cifar_resnet20_v1"}, (3, 32, 32), 1000),
        ({"network": "r100", "image_h": 112, "image_w": 96, "num_classes": 85164}, (3, 112, 96), 0),
        ({"dataset": "cifar10", "model": "vgg16", "input_size": 64}, (3, 64, 64), 10),
    ],
)
def test_arguments_that_name_a_data_set_say_its_images(
    tmp_path: Path, values: dict[str, object], shape: tuple[int, ...], classes: int
) -> None:
    told = f"INFO:root:{namespace(gpus='0,1', batch_size=64, **values)}"
    trial = made(tmp_path, told, speedometer(FAST)).trial
    assert (trial.model.image_shape, trial.model.num_classes) == (shape, classes or 85164)


@pytest.mark.parametrize("values", [{"new_length": 32}, {"new_length": 1, "num_segments": 7}])
def test_speeds_of_clips_are_refused(tmp_path: Path, values: dict[str, int]) -> None:
    told = namespace(model="i3d_resnet50_v1", num_gpus=8, batch_size=8, **values)
    assert "clips of" in refused(tmp_path, told, speedometer(FAST))
    frames = namespace(model="vgg16_ucf101", num_gpus=8, batch_size=25, num_segments=1)
    assert made(tmp_path, frames, speedometer(FAST)).trial.layout.devices == 8


def test_a_total_of_four_workers_is_not_booked_on_the_devices_of_one(tmp_path: Path) -> None:
    head = tf_cnn(
        batches="Batch size:  128 global\n             64 per device",
        devices=["/job:worker/task:0/gpu:0", "/job:worker/task:0/gpu:1"],
        variables="distributed_replicated",
    )
    parts = (head, steps([148.5] * 11, 580.0))
    assert "--devices" in refused(tmp_path, *parts)
    assert "3.91 times" in refused(tmp_path, *parts, devices=2)
    assert "3.91 times" in refused(tmp_path, *parts, devices=16)
    record = made(tmp_path, *parts, devices=8)
    assert rate_of(record) == pytest.approx(4 * 148.5, rel=0.01)


def test_runs_or_validations_below_each_other_are_not_workers(tmp_path: Path) -> None:
    asked = {"network": "resnet-50", "devices": 2, "batch_per_device": 32, "workers": 2}
    epochs = [speedometer([speed * n for speed in FAST]) for n in (1, 3)]
    later = [text.replace("Epoch[0]", "Epoch[1]") for text in epochs]
    assert "one worker after the other" in refused(tmp_path, *epochs, **asked)
    assert "one worker after the other" in refused(tmp_path, *epochs, *later, **asked)
    pairs = zip(*(text.splitlines() for text in epochs), strict=True)
    mixed = [line for pair in pairs for line in pair]
    assert made(tmp_path, *mixed, **asked).trial.workers == 2


LAUNCHED = "../../tools/launch.py -n 2 --launcher ssh -H hosts python train_imagenet.py"


@pytest.mark.parametrize(
    ("command", "against"),
    [
        ("python train_imagenet.py --gpus 0,1,2,3", {"devices": 1}),
        ("python train_imagenet.py --gpus=0,1 --dtype float16", {"dtype": "float32"}),
        ("python train_imagenet.py --gpus 0,1 --kv-store nccl", {"kvstore": "device"}),
        ("python train_imagenet.py --gpus 0 --batch-size 64", {"batch_per_device": 32}),
        (f"python {LAUNCHED} --kv-store dist_sync --gpus 0", {"workers": 3}),
    ],
)
def test_a_command_that_the_log_repeats_states_the_point(
    tmp_path: Path, command: str, against: dict[str, Any]
) -> None:
    asked = {"network": "alexnet", "devices": 2, "batch_per_device": 32} | against
    assert " in the log, but --" in refused(tmp_path, f"+ {command}", speedometer(FAST), **asked)


def test_a_command_is_read_to_the_end_of_each_value(tmp_path: Path) -> None:
    told = (
        "python train_imagenet.py --network inception-v3 --test-io --gpus 0,1 --batch-size=64 "
        "--data-train ~/a-b/train.rec --image-shape 3,299,299"
    )
    record = made(tmp_path, told, speedometer(FAST))
    assert point(record) == ("inception-v3", "unknown", "float32", 2, 32)
    assert record.trial.mode == "real"
    assert "real images" not in str(note(record, NoteKind.LOG_ASSUMED))


def test_one_workers_log_of_a_job_that_was_launched_is_not_the_job(tmp_path: Path) -> None:
    told = f"{LAUNCHED} --kv-store dist_sync --gpus 0,1 --network alexnet --batch-size 64"
    assert "throughput of 2 workers" in refused(tmp_path, told, speedometer(FAST))
    record = made(tmp_path, told, speedometer(FAST), speeds_of="one-worker")
    assert (
        record.trial.workers,
        record.trial.layout.devices,
        record.trial.training.batch_per_device,
    ) == (2, 4, 32)


def test_printed_arguments_are_taken_before_commands_and_two_commands_state_nothing(
    tmp_path: Path,
) -> None:
    command = "python train_imagenet.py --gpus 0,1 --network alexnet --batch-size 64"
    record = made(tmp_path, command, upstream(gpus="0", batch_size=32), speedometer(FAST))
    assert (record.trial.layout.devices, record.trial.training.batch_per_device) == (1, 32)
    others = command.replace("0,1", "0,1,2,3")
    asked = {"network": "alexnet", "devices": 8, "batch_per_device": 8}
    assert made(tmp_path, command, others, speedometer(FAST), **asked).trial.layout.devices == 8
