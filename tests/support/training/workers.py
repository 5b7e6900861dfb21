"""Workers in this process that train a tiny network, and their checkpoints."""

from pathlib import Path
from typing import Any

from bench.training.loop import TrainingSummary
from bench.training.mxnet.backend import train
from bench.training.mxnet_shim import mx
from bench.training.options import parse

INPUT = ["--network", "tiny", "--image-shape", "3,32,32", "--num-classes", "10"]
SMALL = [*INPUT, "--kv-store", "local"]
SYNTHETIC = [*SMALL, "--benchmark", "1", "--batch-size", "4"]


def trained(*words: str) -> TrainingSummary:
    """Train a tiny network with these additional options."""
    return train(parse([*SMALL, *words]))


def weights(prefix: Path, epoch: int = 1) -> dict[str, Any]:
    """Return the arrays of a checkpoint by name."""
    saved = mx.nd.load(f"{prefix}-{epoch:04d}.params")
    return {name: value.asnumpy() for name, value in saved.items()}


def values(net: Any) -> dict[str, Any]:
    """Return the arrays of a network by name, after all work on it.

    A first step after a prediction moves weights into another layout, later than MXNet's reads wait
    for: reading them at that moment is a segmentation fault.
    """
    mx.nd.waitall()
    return {name: one.data().asnumpy() for name, one in net.collect_params().items()}


def photos(folder: Path) -> list[str]:
    """Return options to train on the sample photographs."""
    return [*train_photos(folder), f"--data-val={folder / 'val'}", "--lr-step-epochs="]


def train_photos(folder: Path) -> list[str]:
    """Return options to read the sample photographs."""
    return [f"--data-train={folder / 'train'}", "--batch-size=24", "--rgb-std=58,57,57"]
