"""Memory for a worker's batches, and their way to its device."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from bench.training.options import Options


@dataclass(kw_only=True)
class TensorBuffer:
    """The tensors of a batch in the memory of the CPU.

    used  event after the copies to the GPU that read them; None before the first
    """

    data: Any
    label: Any
    images: Any
    labels: Any
    used: Any = None

    def wait(self) -> None:
        """Wait until the previous batch has left this memory."""
        if self.used is not None:
            self.used.synchronize()


def buffer(options: Options, device: Any, size: int) -> TensorBuffer:
    """Return a buffer for a batch; for a GPU it is pinned, for faster copies."""
    pinned = device.type == "cuda"
    data = torch.empty((size, *options.image_shape), pin_memory=pinned)
    label = torch.empty(size, pin_memory=pinned)
    return TensorBuffer(data=data, label=label, images=data.numpy(), labels=label.numpy())


def load(options: Options, device: Any, filled: Any) -> tuple[Any, Any]:
    """Return a buffer's images and labels on the device; the copies may still run."""
    images = place(options, device, filled.data)
    labels = filled.label.to(device, non_blocking=True).long()
    if device.type == "cuda":
        filled.used = torch.cuda.Event()
        filled.used.record()
    return images, labels


def place(options: Options, device: Any, images: Any) -> Any:
    """Return images on the device, in the layout of the network."""
    layout = torch.channels_last if options.channels_last else torch.contiguous_format
    return images.to(device, non_blocking=True, memory_format=layout)


def cycle(options: Options, device: Any, images: Any, labels: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the same images with one row of labels after another, without end."""
    data = place(options, device, torch.from_numpy(images))
    rows = torch.from_numpy(labels).to(device).long()
    return itertools.cycle([(data, row) for row in rows])
