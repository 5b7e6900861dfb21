"""Training that is rejected at its start or its end."""

import json
import math
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench import fine_tune
from bench.errors import SpecError
from bench.training.input_rate import time_input
from bench.training.loop import check_validation, traced
from bench.training.mxnet.backend import train
from bench.training.mxnet.worker import build_worker, weight_digest
from bench.training.mxnet.worker import trainable_parameters as trained_parameters
from bench.training.mxnet_shim import mx
from bench.training.options import parse
from im2rec_tools.formats.recordio import ImageRecord, pack
from tests.support.data.shards import write
from tests.support.data.trees import jpeg
from tests.support.paths import ROOT
from tests.support.training.workers import INPUT, SMALL, SYNTHETIC, photos, trained

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.mxnet


def test_weights_that_are_no_numbers_fail_though_the_loss_is_one() -> None:
    worker = build_worker(parse([*SYNTHETIC, "--windows=1"]))
    assert weight_digest(worker) == weight_digest(worker)
    parameter = trained_parameters(worker)[0]
    parameter.set_data(mx.nd.full(parameter.shape, math.nan))
    with pytest.raises(
        FloatingPointError, match=f"expected finite values, got others in {parameter.name}"
    ):
        weight_digest(worker)


def test_a_prefix_of_another_network_is_refused(tmp_path: Path, photographs: Path) -> None:
    words = [*photos(photographs), "--num-epochs=1", f"--model-prefix={tmp_path / 'm'}"]
    trained(*words)
    trained(*words)  # the same network may
    before = (tmp_path / "m-symbol.json").read_bytes()
    said = "m-symbol.json: belongs to checkpoints of a different network"
    with pytest.raises(SpecError, match=said):
        trained(*words, "--network=resnet-18")
    tuned = [*words, "--image-shape=3,32,32", "--kv-store=local", "--num-classes=10"]
    for name in ("symbol.json", "0001.params"):
        shutil.copy(tmp_path / f"m-{name}", tmp_path / f"other-{name}")
    with pytest.raises(SpecError, match=said):
        train(fine_tune.parse([*tuned, f"--pretrained-model={tmp_path / 'other'}"]))
    assert (tmp_path / "m-symbol.json").read_bytes() == before


@pytest.mark.parametrize("prefix", [".", "/proc/x", "a" * 300])
def test_a_prefix_that_cannot_be_written_is_refused_before_training(prefix: str) -> None:
    with pytest.raises(SpecError, match="--model-prefix"):
        trained(*SYNTHETIC, "--windows=1", f"--model-prefix={prefix}")


@pytest.mark.parametrize("suffix", ["/", ".", "/nowhere/x.json", "/proc/x.json"])
def test_a_profile_that_cannot_be_written_is_refused(suffix: str) -> None:
    with pytest.raises(SpecError, match="--profile-worker-suffix"):
        trained(*SYNTHETIC, "--windows=1", f"--profile-worker-suffix={suffix}")


def test_only_the_named_batches_are_profiled(tmp_path: Path, photographs: Path) -> None:
    # 10 steps per epoch in windows of 4, 4 and 2; the profile spans two windows and a validation.
    words = [*photos(photographs), "--num-epochs=2", "--steps-per-window=4"]
    suffix = f"--profile-worker-suffix={tmp_path / 'w.json'}"
    trained(*words, suffix, "--profile-batches=9:12")
    events = json.loads((tmp_path / "rank0_w.json").read_text())["traceEvents"]
    steps = [one["name"] for one in events if "Convolution" in one["name"] and one["ph"] == "B"]
    assert len([name for name in steps if not name.startswith("_backward")]) == 4
    assert len([name for name in steps if "_backward_log_softmax" in name]) == 4


@pytest.mark.parametrize(
    ("window", "profiled"),
    [
        (range(1, 5), []),
        (range(5, 9), [7, 8]),
        (range(9, 11), [9, 10]),
        (range(11, 15), [11]),
        (range(15, 19), []),
    ],
)
def test_a_window_profiles_its_part_of_the_batches(window: range, profiled: list[int]) -> None:
    options = parse([*SYNTHETIC, "--windows=9", "--profile-worker-suffix=x"])
    assert [*traced(replace(options, profile_batches=(7, 11)), window)] == profiled
    assert not traced(options, window)


def test_batches_after_the_end_of_the_job_are_refused(tmp_path: Path) -> None:
    words = ["--windows=1", f"--profile-worker-suffix={tmp_path / 'w.json'}"]
    # In a process of its own: MXNet's profiler can be set up once.
    command = [sys.executable, "-m", "bench.train_imagenet", *SYNTHETIC, *words]
    done = subprocess.run(
        [*command, "--profile-batches=90:91"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "error: --profile-batches: expected batches of the job, got 90:91" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_fewer_images_to_validate_on_than_workers_are_refused(
    tmp_path: Path, photographs: Path
) -> None:
    one = pack(ImageRecord(index=0, labels=(0.0,), image=jpeg(64, 64)))
    words = [*photos(photographs), f"--data-val={write(tmp_path / 'one.rec', [one])}"]
    options = parse([*SMALL, *words, "--num-epochs=1"])
    check_validation(options, 1)
    with pytest.raises(
        SpecError, match=r"one\.rec: expected at least one validation image per worker"
    ):
        check_validation(options, 2)


@pytest.mark.parametrize("more", [(), ("--random-mirror=1",)])
def test_a_label_that_the_network_has_no_class_for_is_named(
    photographs: Path, more: tuple[str, ...]
) -> None:
    with pytest.raises(SpecError, match="expected a label from 0 to 4"):
        trained(*photos(photographs), "--num-epochs=1", "--num-classes=5", *more)


def test_a_record_without_an_image_is_named(tmp_path: Path) -> None:
    junk = pack(ImageRecord(index=0, labels=(0.0,), image=b"no image"))
    path = write(tmp_path / "junk.rec", [junk] * 8)
    said = r"junk\.rec: the record at byte 0: expected an image that can be decoded"
    with pytest.raises(SpecError, match=said):
        time_input(parse([*INPUT, f"--data-train={path}", "--batch-size=8", "--test-io=1"]))


def test_training_that_diverges_fails() -> None:
    with pytest.raises(FloatingPointError, match="Use a smaller --lr"):
        trained(*SYNTHETIC, "--lr=1e20", "--windows=50")
