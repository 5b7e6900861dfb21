"""Training that continues from a checkpoint is training that was not interrupted."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from bench.errors import SpecError
from bench.events import STREAM_VARIABLE
from bench.kvstores import find_kvstore
from bench.training.loop import is_probe_due
from bench.training.mxnet.backend import train
from bench.training.options import parse
from tests.support.paths import ROOT
from tests.support.repeats import slow
from tests.support.training.workers import INPUT, SMALL, SYNTHETIC, photos, trained, weights

if TYPE_CHECKING:
    from bench.training.backend import Backend

pytestmark = [
    pytest.mark.mxnet,
    pytest.mark.filterwarnings("ignore:Please import:DeprecationWarning"),
]
CHANGES = ["--random-crop=1", "--random-mirror=1", "--brightness=0.2", "--lr=0.01"]
ALEXNET = "--network=alexnet --image-shape=3,67,67 --num-classes=10 --batch-size=2 --benchmark=1"


def losses(*words: str) -> list[float]:
    return [window["loss"] for window in train(parse([*words])).windows]


def compare(folder: Path, *words: str) -> None:
    """Train three epochs at once, and the last two of them in a second process."""
    whole = losses(*words, "--num-epochs=3", f"--model-prefix={folder / 'whole'}")
    first = losses(*words, "--num-epochs=1", f"--model-prefix={folder / 'part'}")
    rest = losses(*words, "--num-epochs=3", f"--model-prefix={folder / 'part'}", "--load-epoch=1")
    assert first + rest == whole
    arrays = weights(folder / "whole", 3)
    assert all((weights(folder / "part", 3)[name] == arrays[name]).all() for name in arrays)


@pytest.mark.parametrize(
    "optimizer",
    ["sgd", "adam", *slow("nadam", "lbsgd", "lamb", "ftml", "ftrl", "rmsprop", "adadelta")],
)
def test_training_on_photographs_continues_exactly(
    optimizer: str, photographs: Path, tmp_path: Path
) -> None:
    # 240 images do not divide into batches of 28, so that a batch spans two epochs.
    words = [*SMALL, *photos(photographs), "--batch-size=28", "--lr-step-epochs=2"]
    compare(tmp_path, *words, *CHANGES, f"--optimizer={optimizer}")


@pytest.mark.slow
def test_nag_continues_nearly(photographs: Path, tmp_path: Path) -> None:
    # The last bits of MXNet's nag differ from run to run, with one thread too.
    words = [*SMALL, *photos(photographs), "--batch-size=28", *CHANGES, "--optimizer=nag"]
    prefix = f"--model-prefix={tmp_path / 'part'}"
    whole = losses(*words, "--num-epochs=2")
    first = losses(*words, "--num-epochs=1", prefix)
    rest = losses(*words, "--num-epochs=2", prefix, "--load-epoch=1")
    np.testing.assert_allclose(first + rest, whole, rtol=1e-5)


@pytest.mark.parametrize(
    "words",
    [
        [*SYNTHETIC, "--num-examples=16", "--cpus=2"],
        *slow([*ALEXNET.split(), "--kv-store=local", "--num-examples=4", "--lr=0.001"]),
    ],
    ids=["two-devices", "dropout"],
)
def test_training_on_synthetic_images_continues_exactly(words: list[str], tmp_path: Path) -> None:
    compare(tmp_path, *words)


@pytest.mark.parametrize("store", slow("local", "device"))
def test_fixed_scales_of_two_devices_continue_exactly(store: str, tmp_path: Path) -> None:
    # The running averages continue with their mean; they change no loss.
    words = "--network=resnet-20 --image-shape=3,8,8 --num-classes=10 --batch-size=4 --cpus=2"
    words += f" --benchmark=1 --num-examples=8 --lr=0.01 --kv-store={store}"
    whole = losses(*words.split(), "--num-epochs=2", f"--model-prefix={tmp_path / 'whole'}")
    part = [*words.split(), "--num-epochs=2", f"--model-prefix={tmp_path / 'part'}"]
    losses(*part)
    assert losses(*part, "--load-epoch=1") == whole[2:]
    arrays, again = weights(tmp_path / "whole", 2), weights(tmp_path / "part", 2)
    trained_arrays = [name for name in arrays if name.startswith("arg:")]
    assert all((again[name] == arrays[name]).all() for name in trained_arrays)


def probed(workers: int, *words: str) -> int:
    """Return the number of windows, of twenty, with a probe before them."""
    options = parse([*SYNTHETIC, "--kv-store=dist_sync", *words])
    comm = find_kvstore(options.kv_store)
    worker = cast("Backend", SimpleNamespace(options=options, num_workers=workers, comm=comm))
    return sum(is_probe_due(worker, count) for count in range(20))


def test_training_by_epochs_is_not_probed_between_windows() -> None:
    assert probed(2, "--windows=9") == 8
    assert probed(2, "--num-examples=16") == 0  # a probe draws random numbers, as for dropout


def test_a_worker_alone_has_fewer_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert probed(1, "--windows=9") == 0  # no record
    monkeypatch.setenv(STREAM_VARIABLE, "1")
    assert probed(1, "--windows=9") == 3


def test_without_its_state_training_continues_with_momentum_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*SYNTHETIC, "--num-examples=16", f"--model-prefix={tmp_path / 'm'}", "--num-epochs=2"]
    whole = losses(*words)
    assert whole[4:] == losses(*words, "--load-epoch=1")
    assert "with the optimizer's state" in capsys.readouterr().err
    (tmp_path / "m-0001.optimizer").unlink()
    assert whole[4:] != losses(*words, "--load-epoch=1")
    assert "momentum restarts at 0" in capsys.readouterr().err


def test_settings_that_differ_from_the_training_so_far_are_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*SYNTHETIC, "--num-examples=4", f"--model-prefix={tmp_path / 'm'}", "--lr=0.01"]
    losses(*words, "--num-epochs=1")
    again = [*words, "--num-epochs=2", "--load-epoch=1"]
    losses(*again)
    assert "the training so far" not in capsys.readouterr().err
    losses(*again, "--lr=0.1", "--lr-step-epochs=", "--batch-size=2")
    assert (
        "note: the training so far had --lr 0.01, --lr-step-epochs 30,60, a global batch of 4; "
        "it continues with --lr 0.1, --lr-step-epochs '', a global batch of 2\n"
    ) in capsys.readouterr().err
    with pytest.raises(SpecError, match=r"--mom: expected 0.9, as in .*m-0001\.optimizer, got 0\."):
        losses(*again, "--mom=0")
    path = tmp_path / "m-0001.optimizer"  # as earlier versions wrote it
    path.write_bytes(path.read_bytes().replace(b'"settings"', b'"unknown_"'))
    with pytest.raises(
        SpecError, match=r"m-0001\.optimizer: expected the 0 arrays of this .* got 8"
    ):
        losses(*again, "--mom=0")


def test_a_state_that_does_not_fit_is_one_line(tmp_path: Path) -> None:
    words = [*SYNTHETIC, "--num-examples=4", f"--model-prefix={tmp_path / 'm'}"]
    trained(*words, "--num-epochs=1")
    again = [*words, "--num-epochs=2", "--load-epoch=1"]
    with pytest.raises(SpecError, match=r"m-0001\.optimizer: expected the state of --optimizer"):
        trained(*again, "--optimizer=adam")
    path = tmp_path / "m-0001.optimizer"
    whole = path.read_bytes()
    for damaged in (b"", whole[:50], whole.replace(b'"schema": 1', b'"schema": 9')):
        path.write_bytes(damaged)
        with pytest.raises(SpecError, match="expected the state of training, got an invalid one"):
            trained(*again)


@pytest.mark.program
@pytest.mark.parametrize("store", ["dist_sync", *slow("dist_device_sync")])
def test_a_job_of_two_workers_continues_exactly(
    store: str, photographs: Path, tmp_path: Path
) -> None:
    # The bound splits arrays of state among the servers.
    def job(epochs: int, prefix: str, *more: str) -> list[str]:
        words = [f"--data-train={photographs / 'train'}", f"--data-val={photographs / 'val'}"]
        words += [
            "--batch-size=14",
            "--lr=0.01",
            "--rgb-std=58,57,57",
            "--disp-batches=1",
            f"--kv-store={store}",
        ]
        words += [f"--num-epochs={epochs}", f"--model-prefix={tmp_path / prefix}", *more]
        command = [sys.executable, "-m", "bench.train_imagenet", *INPUT, *words]
        done = subprocess.run(
            [*LAUNCH, "-x", "MXNET_KVSTORE_BIGARRAY_BOUND=1000", "--", *command],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        found = re.findall(r"(rank \d epoch \d batch \d+): .* (loss \S+)", done.stdout)
        joined = re.findall(r" (epoch \d: validation .*of all workers\))", done.stdout)
        assert len(joined) == epochs - bool(more)
        assert all("(60 images of all workers)" in line for line in joined)
        return [*sorted(" ".join(one) for one in found), *joined]

    whole = job(2, "whole")
    for path in tmp_path.glob("whole-*"):
        if "-0002" not in path.name:  # the files as the first epoch left them
            shutil.copy(path, tmp_path / path.name.replace("whole-", "part-", 1))
    rest = job(2, "part", "--load-epoch=1")
    assert len(rest) == len(whole) / 2
    assert set(rest) < set(whole)
    arrays = weights(tmp_path / "whole", 2)
    assert all((weights(tmp_path / "part", 2)[name] == arrays[name]).all() for name in arrays)


LAUNCH = [sys.executable, "-m", "launch.launch", "-n", "2", "-s", "2", "--launcher", "local"]
