"""Checkpoints of engine `torch`: PREFIX-NNNN.pt.

They have weights, the optimizer's state and the position in the data, as tensors and plain values.
Reading one runs no code from it.
"""

import pickle
import tempfile
from pathlib import Path
from typing import Any

import torch

from bench.errors import SpecError, brief, error_line

SCHEMA = 1  # first
_ZIP = b"PK\3\4"  # torch.save writes an archive
_UNREADABLE = (OSError, EOFError, LookupError, RuntimeError, ValueError, pickle.UnpicklingError)


def path_of(prefix: str, epoch: int) -> Path:
    """Return the file of a prefix after this epoch."""
    return Path(f"{prefix}-{epoch:04d}.pt")


def save(prefix: str, epoch: int, values: dict[str, Any]) -> Path:
    """Write a checkpoint, complete or not at all, and return its path."""
    target = path_of(prefix, epoch)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".saving-") as folder:
        made = Path(folder) / target.name
        torch.save({"schema": SCHEMA, **values}, made)
        made.replace(target)
    return target


def read(prefix: str, epoch: int) -> dict[str, Any]:
    """Read the checkpoint after this epoch; SpecError if it is missing or invalid."""
    path = path_of(prefix, epoch)
    if not path.is_file():
        there = sorted(path.parent.glob(f"{Path(prefix).name}-[0-9]*.pt"))
        found = ", ".join(one.name for one in there) or "none"
        fix = f"Checkpoints there: {found}"
        raise SpecError(error_line(path, expected="a checkpoint", got="none", fix=fix))
    try:
        values = torch.load(path, map_location="cpu", weights_only=True)
        if values["schema"] != SCHEMA:
            raise ValueError(f"schema {values['schema']}")
    except _UNREADABLE as error:
        got = f"an invalid one ({_reason(path, error)})"
        fix = "Copy the checkpoint again, or load another epoch"
        raise SpecError(error_line(path, expected="a checkpoint", got=got, fix=fix)) from error
    return dict(values)


def _reason(path: Path, error: Exception) -> str:
    """Return why a file could not be read.

    PyTorch's errors do not show that it is another kind of file.
    """
    if not isinstance(error, OSError):
        with path.open("rb") as file:
            if file.read(len(_ZIP)) != _ZIP:
                return "not a file of PyTorch"
    return brief(error)


def restore(net: Any, prefix: str, epoch: int) -> dict[str, Any]:
    """Load the weights into the network; return the checkpoint's values.

    Raises SpecError if they belong to another network.
    """
    values = read(prefix, epoch)
    own = {name: tuple(one.shape) for name, one in net.state_dict().items()}
    saved = {name: tuple(one.shape) for name, one in values["net"].items()}
    if own != saved:
        differ = min(name for name in own.keys() | saved.keys() if own.get(name) != saved.get(name))
        shapes = ("x".join(map(str, one.get(differ, ()))) or "none" for one in (own, saved))
        expected, got = (f"{differ} of shape {shape}" for shape in shapes)
        fix = "Give the --network, --num-classes and --image-shape of the training"
        raise SpecError(error_line(path_of(prefix, epoch), expected=expected, got=got, fix=fix))
    net.load_state_dict(values["net"])
    return values
