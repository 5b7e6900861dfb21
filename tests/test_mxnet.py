"""The real engine: networks, the training job, and faults of real processes."""

import math
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.events import Event
from bench.networks import NETWORKS, named
from bench.sweep import load_sweep
from bench.trial import Trial, make
from im2rec_tools.codec import Recipe
from im2rec_tools.prepare import Shard, Wanted, prepare
from im2rec_tools.recordio import ImageRecord, frame, pack
from im2rec_tools.sample import sample
from launch.hosts import this_machine
from launch.watch import Deadlines
from results.record import Record
from tests.test_job import left_over, marked, measured, running

pytestmark = pytest.mark.mxnet
ROOT = Path(__file__).parent.parent
__all__ = ["marked"]  # a fixture of test_job that these tests use too


def tiny(**fields: Any) -> Trial:
    base = {"network": "tiny", "batch_per_device": 4, "windows": 3, "image_shape": [3, 32, 32]}
    return make(base | fields)


def worker(*words: str) -> subprocess.CompletedProcess[str]:
    """bench.train_imagenet, typed by hand."""
    return subprocess.run(
        [sys.executable, "-m", "bench.train_imagenet", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of the sample: 24 photographs of each class to train on, 6 to validate."""
    root = tmp_path_factory.mktemp("photographs") / "s"
    list(sample(root, images_per_class=30))
    wanted = Wanted(val_per_class=6, train_shards=2, recipe=Recipe(short_edge=256))
    assert all(update.images for update in prepare(root, wanted) if isinstance(update, Shard))
    return root.with_name("s_rec")


def test_numpy_is_as_before_once_mxnet_is_imported() -> None:
    code = (
        "import numpy, warnings; before = dict(vars(numpy)); shown = list(warnings.filters)\n"
        "from bench.mxnet_import import mx\n"
        "changed = [n for n, v in before.items() if vars(numpy).get(n) is not v]\n"
        "print(changed, [n for n in ('bool', 'PZERO', 'product') if n in vars(numpy)])\n"
        "print(numpy.bool is numpy.bool_, hasattr(numpy, 'PZERO'), warnings.filters == shown)\n"
        "print(mx.nd.ones(3).sum().asscalar())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[] ['bool']", "True False True", "3.0"]
    assert "Warning" not in done.stderr


@pytest.mark.parametrize(
    ("name", "arrays", "megabytes"),
    [
        ("alexnet", 16, 203.4),
        ("inception-v3", 284, 95.3),
        ("resnet-152", 461, 240.7),
        ("resnet-18", 58, 46.8),
        ("resnet-34", 106, 87.2),
        ("resnet-50", 155, 102.2),
        ("resnet-101", 308, 178.2),
        ("vgg-16", 32, 553.4),
        ("mobilenet", 83, 16.9),
        ("tiny", 8, 0.4),
    ],
)
def test_a_network_has_the_published_size(name: str, arrays: int, megabytes: float) -> None:
    from bench.mxnet_import import mx  # noqa: PLC0415

    family, layers = named(name)
    net = NETWORKS[family].build(num_classes=1000, num_layers=layers)
    shape = (1, *NETWORKS[family].image_shape)
    symbol = net(mx.sym.var("data"))
    arguments, outputs, _ = symbol.infer_shape(data=shape)
    assert outputs == [(1, 1000)]
    shapes = dict(zip(symbol.list_arguments(), arguments, strict=True))
    trained = [one.name for one in net.collect_params().values() if one.grad_req != "null"]
    sizes = [math.prod(shapes[one]) for one in trained]
    assert len(trained) == arrays
    assert round(sum(sizes) * 4 / 1e6, 1) == pytest.approx(megabytes, abs=0.051)
    if name == "alexnet":
        assert round(sum(sizes) / 1e6, 2) == 50.84


def test_a_worker_typed_by_hand_prints_its_own_summary() -> None:
    words = "--network tiny --batch-size 4 --benchmark 1 --windows 3 --kv-store local"
    done = worker(*words.split(), "--disp-batches", "1")
    assert done.returncode == 0
    assert re.fullmatch(
        r"[\d.]+ images/s trained: 12 images in 3 windows, after 1 of warm-up; batch 4 a worker\n",
        done.stdout,
    )
    assert done.stderr.count("images/s on this worker, loss") == 4


def test_a_worker_typed_by_hand_says_what_is_wrong_in_one_line(tmp_path: Path) -> None:
    cut = tmp_path / "cut.rec"
    cut.write_bytes(bytes.fromhex("0a23d7ce40000000") + b"too short")
    for words, said in (
        (
            ("--benchmark", "1", "--windows", "1", "--kv-store", "dist_sync"),
            "DMLC_ROLE is not 'worker'",
        ),
        (("--data-train", str(cut), "--kv-store", "local"), "is cut off"),
        (("--data-train", str(tmp_path / "none.rec"), "--test-io", "1"), "no such file"),
    ):
        done = worker("--network", "tiny", "--batch-size", "4", *words)
        assert done.returncode == 2
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert done.stdout == ""


def test_local_jobs_on_one_and_two_devices_are_measured(tmp_path: Path) -> None:
    for record in measured(tmp_path, tiny(), tiny(devices=2), deadlines=Deadlines()):
        assert record.status == "ok"
        assert record.message == "" or record.message.startswith("the machine was busy")
        (rank,) = record.ranks
        assert len(rank.seconds) == 4
        assert set(rank.images) == {record.trial.worker_batch}
        assert rank.facts["arrays"] == 8


@pytest.mark.parametrize("kvstore", ["dist_sync", "dist_async"])
def test_a_distributed_job_is_one_job(tmp_path: Path, kvstore: str) -> None:
    # Long enough that asynchronous workers, who start when they like, are at work at once.
    trial = tiny(kvstore=kvstore, devices=2, windows=3 if kvstore == "dist_sync" else 400)
    (record,) = measured(tmp_path, trial, deadlines=Deadlines())
    assert (record.status, record.message) == ("ok", "")
    assert sorted(rank.rank for rank in record.ranks) == [0, 1]
    assert {rank.facts["num_workers"] for rank in record.ranks} == {2}
    if kvstore == "dist_sync":
        assert len({rank.facts["weight_hash"] for rank in record.ranks}) == 1
    assert left_over() == []


def test_training_on_photographs_stops_when_every_rank_has_learnt(
    tmp_path: Path, photographs: Path
) -> None:
    trial = make(
        {
            "mode": "real",
            "network": "tiny",
            "image_shape": [3, 224, 224],
            "num_classes": 10,
            "batch_per_device": 16,
            "kvstore": "dist_sync",
            "devices": 2,
            "data_train": str(photographs / "train"),
            "data_val": str(photographs / "val"),
            "rgb_std": [58.393, 57.12, 57.375],
            "windows": 0,
            "num_epochs": 30,
            "stop_accuracy": 0.5,
        }
    )
    (record,) = measured(tmp_path, trial, deadlines=Deadlines())
    assert (record.status, record.message) == ("ok", "")
    assert record.accuracy is not None
    assert record.accuracy > 0.5
    windows = {len(rank.seconds) for rank in record.ranks}
    assert len(windows) == 1
    assert windows.pop() % (240 // 32) == 0


def test_fewer_windows_than_asked_for_are_no_measurement(tmp_path: Path, photographs: Path) -> None:
    fields = {"data_train": str(photographs / "train"), "image_shape": [3, 224, 224]}
    trial = make({"mode": "real", "batch_per_device": 80, "windows": 20, "num_epochs": 1, **fields})
    (record,) = measured(tmp_path, trial, deadlines=Deadlines())
    assert record.status == "failed"
    assert record.message == "3 windows, expected 21 with 1 of warm-up"


def test_what_mxnet_says_of_an_error_is_told(tmp_path: Path) -> None:
    junk = pack(ImageRecord(index=0, label=0.0, image=b"no image"))
    (tmp_path / "junk.rec").write_bytes(frame(junk) * 8)
    trial = make(
        {"mode": "test-io", "batch_per_device": 8, "data_train": str(tmp_path / "junk.rec")}
    )
    (record,) = measured(tmp_path / "run", trial, deadlines=Deadlines())
    assert record.status == "failed"
    assert "Traceback" not in record.message
    assert "OpenCV" in record.message


def test_reading_alone_is_measured_past_the_prefetch(tmp_path: Path, photographs: Path) -> None:
    fields = {"data_train": str(photographs / "train"), "image_shape": [3, 224, 224]}
    trial = make({"mode": "test-io", "batch_per_device": 8, "windows": 4, **fields})
    (record,) = measured(tmp_path, trial, deadlines=Deadlines())
    (rank,) = record.ranks
    assert record.status == "ok"
    assert rank.seconds[0] >= 1.0
    assert min(rank.seconds[1:]) >= 0.5
    assert sum(rank.images) > 240


def test_the_network_is_saved_as_mxnet_loads_it(tmp_path: Path, photographs: Path) -> None:
    words = "--network tiny --num-classes 10 --batch-size 8 --num-epochs 2 --kv-store local"
    data = ("--data-train", str(photographs / "train"), "--model", str(tmp_path / "tiny"))
    done = worker(*words.split(), *data, "--rgb-std", "58,57,57", "--num-examples", "16")
    assert done.returncode == 0, done.stderr
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"tiny-symbol.json", "tiny-0001.params", "tiny-0002.params"}
    from bench.mxnet_import import mx  # noqa: PLC0415

    symbol, arguments, _ = mx.model.load_checkpoint(str(tmp_path / "tiny"), 2)
    assert len(arguments) == 8
    assert symbol.list_outputs()


def interrupted(updates: Iterator[Any], act: Any) -> Record:
    """The record of a job to which `act` was done in the middle of its windows."""
    done = False
    for update in updates:
        if isinstance(update, Event) and update.kind == "window" and not done:
            act()
            done = True
        if isinstance(update, Record):
            return update
    raise AssertionError("no record")


def pid_of(module: str, role: str) -> int:
    """A process of this test's job, by what it runs and its role."""
    for pid in map(int, left_over()):
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        if f"DMLC_ROLE={role}".encode() in variables and module.encode() in command:
            return pid
    raise AssertionError(f"no {role} runs")


@pytest.mark.parametrize(
    ("module", "role"), [("bench.train_imagenet", "worker"), ("bench.serve", "server")]
)
def test_a_killed_process_of_a_real_job_fails_the_point(
    tmp_path: Path, module: str, role: str
) -> None:
    import os  # noqa: PLC0415

    trial = tiny(kvstore="dist_sync", devices=2, windows=100_000)
    with running(tmp_path, trial, deadlines=Deadlines()) as updates:
        record = interrupted(updates, lambda: os.kill(pid_of(module, role), signal.SIGKILL))
    assert record.status == "failed"
    assert f"{role} " in record.message
    assert f"on {this_machine().name} was killed by SIGKILL" in record.message
    assert left_over() == []


def test_a_real_worker_that_diverges_fails_the_point(tmp_path: Path) -> None:
    trial = tiny(kvstore="dist_sync", devices=2, lr=1e20, windows=50)
    (record,) = measured(tmp_path, trial, deadlines=Deadlines())
    assert record.status == "failed"
    assert "try a smaller --lr" in record.message
    assert left_over() == []


def test_fab_smoke_trains_with_and_without_servers(tmp_path: Path) -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "fab", "smoke", "--run", str(tmp_path / "run")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(" ok ") == len(load_sweep("smoke").trials) == 3
