"""A worker's output during training: throughput, and accuracy per epoch."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.notes import Note, NoteKind
from bench.train_imagenet import summary_text
from bench.training import loop, validation
from bench.training.loop import TrainingSummary
from bench.training.mxnet import backend
from bench.training.mxnet.worker import gradients
from bench.training.mxnet_shim import mx
from bench.training.options import parse
from tests.support.training.workers import SYNTHETIC, photos, trained

pytestmark = pytest.mark.mxnet
LINE = r"rank 0 epoch (\d+) batch (\d+): ([\d.]+) images/s on this worker"


def timed(monkeypatch: pytest.MonkeyPatch, seconds: list[float]) -> None:
    """Return times by which windows last as long as listed."""
    measure, left = loop.time_window, iter(seconds)

    def scripted(*given: Any) -> dict[str, Any]:
        return measure(*given) | {"seconds": next(left)}

    monkeypatch.setattr(loop, "time_window", scripted)


def test_a_line_has_the_mean_throughput_since_the_last_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # A slow start, then one step in two takes three times as long.
    timed(monkeypatch, [9, 1, 3, 1, 3, 1, 3, 1, 3])
    trained(*SYNTHETIC, "--windows=8", "--disp-batches=4", "--kv-store=local")
    found = re.findall(LINE, capsys.readouterr().err)
    assert [int(batch) for _, batch, _ in found] == [4, 8]
    # The first line leaves out the warm-up window.
    wanted = [3 * 4 / 5, 4 * 4 / 8]
    assert [float(rate) for _, _, rate in found] == pytest.approx(wanted, abs=0.01)


def test_batches_are_counted_from_the_beginning_of_each_epoch(
    photographs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    timed(monkeypatch, [1.0] * 7 + [5.0, 1.0] * 20)
    words = [*photos(photographs), "--num-epochs=2", "--steps-per-window=1", "--disp-batches=4"]
    summary = trained(*words)
    found = re.findall(LINE, capsys.readouterr().err)
    each = len(summary.windows) // 2
    assert each % 4, "an epoch's last batches have no line, and belong to none of the next"
    due = [(epoch, batch) for epoch in (0, 1) for batch in range(4, each + 1, 4)]
    assert [(int(epoch), int(batch)) for epoch, batch, _ in found] == due
    size = summary.windows[0]["images"]
    last = sum(one["seconds"] for one in summary.windows[each : each + 4])
    first = float(next(rate for epoch, _, rate in found if epoch == "1"))
    assert first == pytest.approx(4 * size / last, abs=0.01)


@pytest.mark.parametrize("costs", ["none", "upstream"])
def test_synthetic_images_without_windows_are_trained_by_epochs(
    costs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--num-examples=30", "--num-epochs=2", "--disp-batches=4", f"--costs={costs}"]
    summary = trained(*SYNTHETIC, *words, "--lr-step-epochs=1", "--lr=0.1")
    text = capsys.readouterr().err
    assert len(summary.windows) == 2 * 8
    assert [found[:2] for found in re.findall(LINE, text)] == [
        ("0", "4"),
        ("0", "8"),
        ("1", "4"),
        ("1", "8"),
    ]
    assert re.findall(r"epoch (\d): 8 batches in .* rate (\S+),", text) == [
        ("0", "0.1"),
        ("1", "0.01"),
    ]
    assert len(re.findall(r"Epoch\[\d\] Train-accuracy", text)) == 2 * (costs == "upstream")


def test_both_names_of_the_loss_are_printed(
    photographs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(*photos(photographs), "--num-epochs=1", "--loss=ce,nll", "--lr=0.01")
    (ce, nll), *others = re.findall(r", ce ([\d.]+), nll ([\d.]+)\n", capsys.readouterr().err)
    assert ce == nll
    assert not others


def test_each_epoch_prints_upstreams_line_of_its_training_accuracy(
    photographs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted: list[Any] = []

    def scored(worker: Any, batch: Any) -> Any:
        guessed = np.argmax(worker.net(batch[0][0]).asnumpy(), axis=1)
        counted.append((guessed == batch[1][0].asnumpy()).mean())
        return gradients(worker, batch)

    monkeypatch.setattr(backend, "gradients", scored)
    trained(*photos(photographs), "--num-epochs=2", "--lr=0.01")
    text = capsys.readouterr().err
    found = re.findall(r"rank 0 Epoch\[(\d+)\] Train-accuracy=(\d\.\d{6})\n", text)
    steps = len(counted) // 2
    assert [int(epoch) for epoch, _ in found] == [0, 1]
    for number, (_, value) in enumerate(found):
        epoch = counted[number * steps : (number + 1) * steps]
        assert float(value) == pytest.approx(np.mean(epoch), abs=1e-6)


def test_accuracy_is_read_at_the_edges_of_windows_alone(
    photographs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    for owner, name in ((loop, "time_window"), (validation.Accuracy, "read")):
        monkeypatch.setattr(owner, name, noted(happened, name, getattr(owner, name)))
    words = [*photos(photographs), "--num-epochs=1", "--steps-per-window=5"]
    trained(*words)
    assert happened == ["time_window", "time_windowed", "read", "readed"] * 2
    del happened[:]
    trained(*SYNTHETIC, "--windows=2")
    assert happened == ["time_window", "time_windowed"] * 3


def test_hits_of_steps_are_kept_until_they_are_read() -> None:
    from bench.training.mxnet.inputs import synthetic_batches  # noqa: PLC0415
    from bench.training.mxnet.worker import build_worker  # noqa: PLC0415
    from bench.training.options import parse  # noqa: PLC0415

    # Batches of one right and one wrong label: no step's hits may overwrite the last step's.
    options = parse([*SYNTHETIC, "--windows=1", "--costs=upstream"])
    worker = build_worker(options)
    assert worker.accuracy
    (images,), _ = next(synthetic_batches(options, worker.contexts, 0))
    right = worker.net(images).argmax(axis=1)
    wrong = (right + 1) % 10
    for labels in (right, wrong, right, wrong, wrong):
        gradients(worker, ([images], [labels]))
    assert worker.accuracy.read() == (8, 20)
    assert worker.accuracy.read() == (0, 0)


def noted(happened: list[str], name: str, function: Any) -> Any:
    """Return the function with a word printed at its start and one at its end."""

    def wrapped(*given: Any) -> Any:
        happened.append(name)
        try:
            return function(*given)
        finally:
            happened.append(f"{name}d" if name.endswith("e") else f"{name}ed")

    return wrapped


def test_a_synthetic_sweeps_graph_gives_nothing_but_losses() -> None:
    from bench.training.mxnet.worker import build_worker  # noqa: PLC0415
    from bench.training.options import parse  # noqa: PLC0415

    worker = build_worker(parse([*SYNTHETIC, "--windows=1"]))
    assert worker.accuracy is None
    found = worker.loss_of(mx.nd.zeros((4, 3, 32, 32)), mx.nd.zeros(4))
    assert found.shape == (4,)


def test_training_that_diverges_to_a_finite_loss_is_noted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, photographs: Path
) -> None:
    measure = loop.time_window
    figures = {"lr": 0.01, "batch": 300, "scaled": 0.1}
    advice = [Note(NoteKind.RATE_NOT_SCALED, figures)]
    monkeypatch.setattr(loop, "learning_notes", lambda *_: advice)

    def absurd(*given: Any) -> dict[str, Any]:
        found = measure(*given)
        return found | {"loss": 4.5e7 if found["index"] else 2.3}

    monkeypatch.setattr(loop, "time_window", absurd)
    summary = trained(*SYNTHETIC, "--windows=2")
    assert [note.kind for note in summary.notes] == [NoteKind.LOSS_ROSE]
    assert "the loss rose from 2.3 to 4.5e+07" in capsys.readouterr().err
    # Training that diverges gets no advice for a larger rate.
    kinds = [note.kind for note in trained(*photos(photographs), "--num-epochs=1").notes]
    assert NoteKind.LOSS_ROSE in kinds
    assert NoteKind.RATE_NOT_SCALED not in kinds


def test_a_rate_that_is_hardly_known_is_printed_in_plain_per_cent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timed(monkeypatch, [1.0, 0.1, 0.1, 9.0, 0.1, 9.0, 0.1])
    words = [*SYNTHETIC, "--windows=6", "--kv-store=local"]
    text = summary_text(parse(words), trained(*words))
    found = re.search(r"95 % CI ±(\S+) % ", text)
    assert found
    assert found[1].isdecimal()
    assert int(found[1]) > 100


def test_a_stop_accuracy_that_was_not_reached_is_named() -> None:
    summary = TrainingSummary(
        rank=0,
        num_workers=1,
        windows=({"images": 8, "seconds": 1.0, "steps": 2},) * 3,
        accuracy=0.75,
    )
    words = ["--data-train=x.rec", "--data-val=v.rec", "--network=tiny"]
    missed = summary_text(parse([*words, "--stop-accuracy=0.9"]), summary)
    assert missed.endswith("validation accuracy 0.750, which does not exceed --stop-accuracy 0.9")
    for reached in (["--stop-accuracy=0.7"], []):
        assert summary_text(parse([*words, *reached]), summary).endswith("accuracy 0.750")
