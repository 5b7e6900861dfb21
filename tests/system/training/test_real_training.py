"""Jobs train as one process would, across checkpoints and with a schedule."""

import json
import math
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.training.mxnet.backend import train
from bench.training.mxnet.worker import build_worker
from bench.training.mxnet_shim import mx
from bench.training.options import parse
from im2rec_tools.formats.recordio import ImageRecord, pack
from launch.job.monitor import Deadlines
from results.exports import trace
from results.record import Record
from tests.support.data.shards import write
from tests.support.data.trees import jpeg
from tests.support.paths import ROOT
from tests.support.programs.jobs import MARK, left_over, measured, tiny
from tests.support.training.workers import SMALL, SYNTHETIC, photos, trained, weights

pytestmark = pytest.mark.mxnet


SERVER_PROFILE = ".server-test.json"


@dataclass(frozen=True, kw_only=True)
class Job:
    """A finished job of several workers, its files and its checkpoint."""

    record: Record
    left: list[str]
    prefix: Path
    profiles: dict[str, str]


def distributed(folder: Path, workers: int) -> Job:
    """Run a job over servers with a global batch of 9, whose processes write profiles."""
    prefix, suffix = folder / "many", folder / "worker.json"
    words = [f"--model-prefix={prefix}", f"--profile-worker-suffix={suffix}"]
    job: dict[str, Any] = {"kvstore": "dist_sync", "devices": workers, "windows": 19}
    job |= {"batch_per_device": 0, "global_batch_fixed": 9, "num_classes": 10}
    job |= {"momentum": 0.0, "lr": 0.1}
    trial = tiny(**job, options=[*words, f"--profile-server-suffix={SERVER_PROFILE}"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(MARK, str(folder))
        (record,) = measured(folder / "run", trial, deadlines=Deadlines())
        left = left_over()
    servers = sorted(ROOT.glob(f"rank*_{SERVER_PROFILE}"))
    paths = [*servers, *sorted(folder.glob("rank*_worker.json"))]
    profiles = {path.name: path.read_text() for path in paths}
    for path in servers:
        path.unlink()
    return Job(record=record, left=left, prefix=prefix, profiles=profiles)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Two workers."""
    return distributed(tmp_path_factory.mktemp("job"), 2)


@pytest.mark.pythons
def test_a_distributed_job_is_one_job(job: Job) -> None:
    record = job.record
    assert record.status == "ok", record.message
    assert sorted(rank.rank for rank in record.ranks) == [0, 1]
    assert {rank.facts["num_workers"] for rank in record.ranks} == {2}
    (each_way,) = {rank.facts["bytes_each_way"] for rank in record.ranks}
    assert each_way > 10_000
    assert len({rank.facts["weight_hash"] for rank in record.ranks}) == 1
    assert job.left == []


def test_ranks_that_wait_for_each_other_say_what_they_need_by_themselves(job: Job) -> None:
    for rank in job.record.ranks:
        assert len(rank.own_seconds) == 8
        assert 0 < sorted(rank.own_seconds)[4] < sorted(rank.seconds[1:])[9]


def test_profiles_are_written_by_rank_and_by_server(job: Job) -> None:
    servers = [f"rank{n}_{SERVER_PROFILE}" for n in (0, 1)]
    workers = [f"rank{n}_worker.json" for n in (0, 1)]
    assert list(job.profiles) == [*servers, *workers]
    for name in workers:
        assert "Convolution" in job.profiles[name]


def test_the_profiles_of_the_ranks_become_one_trace(job: Job, tmp_path: Path) -> None:
    names = [f"rank{n}_worker.json" for n in (0, 1)]
    traces = [trace.parse(job.profiles[name].encode(), Path(name)) for name in names]
    trace.write(tmp_path / "merged.json", traces, "clock")
    events = json.loads((tmp_path / "merged.json").read_text())["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    host = socket.gethostname()
    assert processes == {n: f"worker rank {n} on {host}" for n in (0, 1)}
    for rank in processes:
        work = [e for e in events if e["pid"] == rank and "Convolution" in e["name"]]
        assert {e["ph"] for e in work} >= {"B", "E"}
    assert min(e["ts"] for e in events if e["ph"] != "M") == 0
    # The ranks train together: each begins before the other ends.
    assert max(one.start for one in traces) < min(one.end for one in traces)


def check_as_one(job: Job, folder: Path) -> None:
    """Check that a job's weights have moved, and equal those of one worker."""
    assert job.record.status == "ok", job.record.message
    images = sorted(rank.images[0] for rank in job.record.ranks)
    assert images == sorted(job.record.trial.worker_batches)
    words = ["--benchmark=1", "--global-batch=9", "--windows=19", "--mom=0", "--lr=0.1"]
    trained(*words, f"--model-prefix={folder / 'one'}")
    many = weights(job.prefix)
    start = build_worker(parse([*SYNTHETIC, "--windows", "1"])).net.collect_params()
    for name, one in weights(folder / "one").items():
        np.testing.assert_allclose(many[name], one, rtol=1e-4, atol=1e-6)
        moved = np.abs(one - start[name.removeprefix("arg:")].data().asnumpy()).max()
        assert moved > 1e-3, f"{name} has not been trained"


def test_workers_train_as_one_process_with_their_global_batch(job: Job, tmp_path: Path) -> None:
    check_as_one(job, tmp_path)


@pytest.mark.slow
def test_four_workers_train_as_one_process_with_their_global_batch(tmp_path: Path) -> None:
    check_as_one(distributed(tmp_path, 4), tmp_path)


def test_a_worker_of_several_devices_trains_as_one_of_one(tmp_path: Path) -> None:
    for devices in ("1", "2"):
        words = ["--benchmark=1", "--global-batch=5", "--windows=5", "--mom=0"]
        trained(*words, f"--model-prefix={tmp_path / devices}", f"--cpus={devices}")
    one, two = weights(tmp_path / "1"), weights(tmp_path / "2")
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, rtol=1e-4, atol=1e-6)


def test_shares_of_different_sizes_never_hang(tmp_path: Path, photographs: Path) -> None:
    images = [
        pack(ImageRecord(index=n, labels=(float(n % 10),), image=jpeg(40, 40, n)))
        for n in range(43)
    ]
    trial = tiny(
        mode="real",
        kvstore="dist_sync",
        devices=2,
        servers_per_host=1,
        batch_per_device=7,
        data_train=str(write(tmp_path / "odd.rec", images)),
        data_val=str(photographs / "val"),
        windows=0,
        num_epochs=2,
    )
    (record,) = measured(tmp_path / "run", trial, deadlines=Deadlines())
    assert record.status == "ok", record.message
    # 22 images are four batches and 21 are three: both workers train three, as upstream's do.
    assert {len(rank.seconds) for rank in record.ranks} == {2 * math.ceil(43 // 2 / 7)}


def test_each_rank_changes_its_images_in_its_own_way(photographs: Path) -> None:
    from bench.data import loader  # noqa: PLC0415
    from bench.data.partition import whole_data  # noqa: PLC0415
    from bench.training.mxnet import inputs  # noqa: PLC0415

    words = ["--data-train", str(photographs / "train"), "--random-crop", "1", "--random-mirror=1"]

    def first(rank: int, seed: int = 0) -> Any:
        options = parse([*SMALL, *words, f"--seed={seed}", "--batch-size=8"])
        whole = whole_data(options.data_train)
        data, _ = next(
            inputs.training_batches(
                options, whole, loader.shuffled_orders(options, whole), loader.Reader(rank=rank)
            )
        )
        return data.asnumpy()

    assert (first(0) == first(0)).all()
    assert (first(0) != first(1)).any(axis=(1, 2, 3)).all()
    assert (first(0) != first(0, seed=1)).any(axis=(1, 2, 3)).all()


def test_checkpoints_load_in_mxnets_own_programs(tmp_path: Path, photographs: Path) -> None:
    prefix = tmp_path / "models" / "m"
    words = [*photos(photographs), "--num-epochs=2", "--save-period=2", "--val-freq=2"]
    summary = trained(*words, f"--model-prefix={prefix}")
    names = sorted(path.name for path in prefix.parent.iterdir())
    assert names == ["m-0002.optimizer", "m-0002.params", "m-mxscale.json", "m-symbol.json"]
    assert summary.accuracy is not None
    symbol, args, auxiliary = mx.model.load_checkpoint(str(prefix), 2)
    module = mx.mod.Module(symbol)  # whose label is upstream's: softmax_label
    module.bind([("data", (2, 3, 32, 32))], [("softmax_label", (2,))], for_training=False)
    module.set_params(args, auxiliary)
    image = mx.nd.ones((2, 3, 32, 32))
    module.forward(mx.io.DataBatch([image]), is_train=False)
    net = build_worker(
        parse([*SMALL, *words, f"--model-prefix={prefix}", "--load-epoch=2", "--num-epochs=3"])
    ).net
    scores = mx.nd.softmax(net(image))
    np.testing.assert_allclose(
        module.get_outputs()[0].asnumpy(), scores.asnumpy(), rtol=1e-4, atol=1e-5
    )


def test_training_goes_on_from_a_checkpoint(
    tmp_path: Path, photographs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*photos(photographs), f"--model-prefix={tmp_path / 'm'}", "--top-k=3", "--loss=ce"]
    trained(*words, "--num-epochs=1")
    capsys.readouterr()
    trained(*words, "--num-epochs=3", "--load-epoch=1")
    said = [line for line in capsys.readouterr().err.splitlines() if "validation" in line]
    assert [line.partition(":")[0] for line in said] == ["epoch 1", "epoch 2"]
    assert all(", top-3 " in line and ", ce " in line for line in said)
    assert {path.name[-11:-7] for path in tmp_path.glob("*.params")} == {"0001", "0002", "0003"}
    trained(*words, "--num-epochs=1")  # anew
    assert "m has checkpoints of an earlier training up to epoch 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--load-epoch=7"],
            "m-0007.params: expected a checkpoint's parameters, got none. .* m-0001",
        ),
        (["--load-epoch=1", "--network=resnet-18"], "different network"),
        (["--load-epoch=1", "--num-classes=11"], "Give its --num-classes"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_one_line(
    tmp_path: Path, words: list[str], said: str
) -> None:
    from bench.errors import SpecError  # noqa: PLC0415

    prefix = f"--model-prefix={tmp_path / 'm'}"
    train(parse([*SYNTHETIC, "--windows=1", prefix]))
    with pytest.raises(SpecError, match=said) as error:
        train(parse([*SYNTHETIC, "--windows=1", prefix, *words]))
    assert "\n" not in str(error.value)


def test_the_monitor_prints_norms_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    train(parse([*SYNTHETIC, "--windows=3", "--monitor=2"]))
    lines = [line for line in capsys.readouterr().err.splitlines() if " batch " in line]
    norms = [line for line in lines if "images/s" not in line]
    assert {line.split()[3] for line in norms} == {"2", "4"}
    first = [line.partition(": ")[0] for line in norms if " batch 2 " in line]
    assert any(name.endswith("weight") for name in first)
    assert any(name.endswith("weight gradient") for name in first)
    assert first[-1].endswith("scores")


@pytest.mark.parametrize("network", ["alexnet", "inception-v3", "tiny"])
def test_an_image_too_small_for_the_network_is_one_line(network: str) -> None:
    from bench.errors import SpecError  # noqa: PLC0415

    words = ["--benchmark=1", "--windows=1", "--batch-size=1"]
    with pytest.raises(SpecError, match=f"image-shape: expected larger images for {network}"):
        trained(*words, f"--network={network}", "--image-shape=3,8,8")
