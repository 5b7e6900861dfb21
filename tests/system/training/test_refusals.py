"""What training refuses to begin, or to end well with."""

import math
from pathlib import Path

import pytest

from bench import fine_tune
from bench.errors import SpecError
from bench.training.loop import train
from bench.training.mxnet_shim import mx
from bench.training.options import parse
from bench.training.worker import build_worker, weight_digest
from bench.training.worker import trainable_parameters as trained_parameters
from im2rec_tools.formats.recordio import ImageRecord, pack
from launch.job.monitor import Deadlines
from tests.support.data.shards import write
from tests.support.data.trees import jpeg
from tests.support.programs.jobs import measured, tiny
from tests.support.training.workers import SYNTHETIC, photos, trained

pytestmark = pytest.mark.mxnet


def test_weights_that_are_no_numbers_fail_though_the_loss_is_one() -> None:
    worker = build_worker(parse([*SYNTHETIC, "--windows=1"]))
    assert weight_digest(worker) == weight_digest(worker)
    parameter = trained_parameters(worker)[0]
    parameter.set_data(mx.nd.full(parameter.shape, math.nan))
    with pytest.raises(FloatingPointError, match=f"are no numbers any more .{parameter.name}"):
        weight_digest(worker)


def test_a_prefix_of_another_network_is_refused(tmp_path: Path, photographs: Path) -> None:
    words = [*photos(photographs), "--num-epochs=1", f"--model-prefix={tmp_path / 'm'}"]
    trained(*words)
    trained(*words)  # the same network may
    before = (tmp_path / "m-symbol.json").read_bytes()
    said = "m-symbol.json: is of another network"
    with pytest.raises(SpecError, match=said):
        trained(*words, "--network=resnet-18")
    tuned = [*words, "--image-shape=3,32,32", "--kv-store=local", "--num-classes=10"]
    with pytest.raises(SpecError, match=said):
        train(fine_tune.parse([*tuned, f"--pretrained-model={tmp_path / 'm'}", "--load-epoch=1"]))
    assert (tmp_path / "m-symbol.json").read_bytes() == before


@pytest.mark.parametrize("prefix", [".", "/proc/x", "a" * 300])
def test_a_prefix_that_cannot_be_written_is_refused_before_training(prefix: str) -> None:
    with pytest.raises(SpecError, match="--model-prefix"):
        trained(*SYNTHETIC, "--windows=1", f"--model-prefix={prefix}")


@pytest.mark.parametrize("suffix", ["/", ".", "/nowhere/x.json", "/proc/x.json"])
def test_a_profile_that_cannot_be_written_is_refused(suffix: str) -> None:
    with pytest.raises(SpecError, match="--profile-worker-suffix"):
        trained(*SYNTHETIC, "--windows=1", f"--profile-worker-suffix={suffix}")


def test_fewer_images_to_validate_on_than_workers_are_refused(
    tmp_path: Path, photographs: Path
) -> None:
    one = pack(ImageRecord(index=0, labels=(0.0,), image=jpeg(64, 64)))
    trial = tiny(
        mode="real",
        kvstore="dist_sync",
        devices=2,
        batch_per_device=8,
        data_train=str(photographs / "train"),
        data_val=str(write(tmp_path / "one.rec", [one])),
        num_epochs=1,
        windows=0,
    )
    (record,) = measured(tmp_path / "run", trial, deadlines=Deadlines())
    assert record.status == "failed"
    assert "one.rec: has too few images to validate on" in record.message
