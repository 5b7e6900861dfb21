"""Engine `torch` under the shared loop: real images, checkpoints, learning rates."""

from pathlib import Path
from typing import Any

import pytest

from bench.errors import SpecError
from bench.training.options import parse

pytestmark = pytest.mark.mxnet
torch = pytest.importorskip("torch", reason="needs PyTorch: make torch")

INPUT = ["--engine=torch", "--network=tiny", "--image-shape=3,32,32", "--num-classes=10"]


def trained(*words: str) -> Any:
    """Train a tiny network in this process with these additional options."""
    from bench.training.torch.backend import train  # noqa: PLC0415

    return train(parse([*INPUT, *words]))


def photos(folder: Path) -> list[str]:
    """Return options to train and validate on the sample photographs."""
    data = [f"--data-train={folder / 'train'}", f"--data-val={folder / 'val'}"]
    return [*data, "--batch-size=24", "--rgb-std=58,57,57", "--top-k=3", "--seed=3"]


def test_training_on_photographs_learns_and_continues_as_if_not_interrupted(
    photographs: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [*photos(photographs), "--lr-step-epochs=1", "--random-mirror=1"]
    whole = trained(*words, "--num-epochs=2", f"--model-prefix={tmp_path / 'a'}")
    assert whole.accuracy > 0.2  # of ten classes
    assert whole.windows[-1]["loss"] < whole.windows[0]["loss"]
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        *(f"a-000{epoch}.pt" for epoch in (1, 2)),
        "a-mxscale.json",
    ]
    printed = capfd.readouterr().err
    assert "top-3" in printed
    assert "Train-accuracy=" in printed
    assert "final learning rate 0.01," in printed
    trained(*words, "--num-epochs=1", f"--model-prefix={tmp_path / 'b'}")
    again = [f"--model-prefix={tmp_path / 'b'}", "--load-epoch=1"]
    rest = trained(*words, "--num-epochs=2", *again)
    assert "continues after epoch 1, with the optimizer's state" in capfd.readouterr().err
    assert rest.weight_hash == whole.weight_hash
    assert rest.accuracy == whole.accuracy


def test_float16_continues_with_the_scale_of_its_gradients(
    photographs: Path, tmp_path: Path
) -> None:
    def scale(name: str) -> dict[str, float]:
        return dict(torch.load(tmp_path / name, weights_only=True)["scaler"])

    words = [*photos(photographs), "--dtype=float16"]
    whole = trained(*words, "--num-epochs=2", f"--model-prefix={tmp_path / 'a'}")
    assert scale("a-0001.pt")["scale"] < torch.amp.GradScaler("cpu").state_dict()["scale"]
    trained(*words, "--num-epochs=1", f"--model-prefix={tmp_path / 'b'}")
    again = [f"--model-prefix={tmp_path / 'b'}", "--load-epoch=1"]
    assert trained(*words, "--num-epochs=2", *again).weight_hash == whole.weight_hash
    assert scale("b-0002.pt") == scale("a-0002.pt")


def test_powersgd_exchanges_factors_of_matrices() -> None:
    from bench.training.torch.worker import factored_size  # noqa: PLC0415

    shapes = {(1000, 64): 1064, (8, 3, 5, 5): 83, (64,): 64, (2, 2): 4, (4, 8): 12, (4, 4): 16}
    assert {shape: factored_size(shape) for shape in shapes} == shapes


def test_a_checkpoint_of_something_else_is_one_error(photographs: Path, tmp_path: Path) -> None:
    words = [*photos(photographs), "--num-epochs=1", f"--model-prefix={tmp_path / 'a'}"]
    trained(*words)
    more = [one for one in words if "epochs" not in one] + ["--num-epochs=2", "--load-epoch=1"]
    with pytest.raises(SpecError, match=r"a-0001.pt: expected the state of --optimizer adam, got"):
        trained(*more, "--optimizer=adam")
    with pytest.raises(SpecError, match=r"expected 0.bias of shape 3, got .* Give the --network"):
        trained(*more, "--network=resnet-18")
    with pytest.raises(SpecError, match=r"belongs to checkpoints of tiny. Give another --model-p"):
        trained(*words, "--network=mlp")
    path = tmp_path / "a-0001.pt"
    path.write_bytes(path.read_bytes()[:-900])
    with pytest.raises(SpecError, match=r"expected a checkpoint, got an invalid one"):
        trained(*more)
    path.write_text("hello\n")
    with pytest.raises(SpecError, match=r"an invalid one \(not a file of PyTorch\)\. Copy the"):
        trained(*more)
    path.unlink()
    with pytest.raises(
        SpecError, match=r"expected a checkpoint, got none. Checkpoints there: none"
    ):
        trained(*more)


def test_synthetic_windows_have_the_measurements_of_a_verdict() -> None:
    found = trained("--benchmark=1", "--windows=3", "--batch-size=4", "--warmup-windows=0")
    assert len(found.windows) == 3
    assert {"cpu_seconds", "run_delay", "input_wait", "loss"} <= found.windows[0].keys()
    assert {window["images"] for window in found.windows} == {4}
    assert found.weight_hash
    assert found.ended == "windows"
    again = trained("--benchmark=1", "--windows=3", "--batch-size=4", "--warmup-windows=0")
    assert again.weight_hash == found.weight_hash


def test_the_probes_run_the_network_alone() -> None:
    from bench.training.loop import compute_seconds  # noqa: PLC0415
    from bench.training.torch.backend import connect  # noqa: PLC0415

    worker = connect(parse([*INPUT, "--benchmark=1", "--windows=1", "--batch-size=4"]))
    before = worker.digest()
    assert compute_seconds(worker, next(worker.synthetic())) > 0
    assert worker.digest() == before
    assert worker.facts() == {
        **{"arrays": 8, "torch": torch.__version__, "tf32": False},
        "threads": torch.get_num_threads(),
    }
    assert (worker.wire_bytes(), worker.device_memory()) == (0, {})
