"""What a person should know of a job that runs as it was asked to."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bench.kvstores import is_distributed
from bench.notes import Note, NoteKind, texts
from bench.options import Options
from im2rec_tools.terminal import echo

# A link of 1 Gbit/s carries as much; on a faster one servers' copies take their part.
_MANY_BYTES_A_SECOND = 125e6
# Times the loss of guessing.
_ABSURD = 10


def of_batch(options: Options, whole: int, images: int) -> Iterator[Note]:
    """Notes on a global batch of `whole` images, `images` an epoch."""
    if whole > images:
        yield Note(NoteKind.BATCH_ABOVE_EPOCH, {"batch": whole, "images": images})
    if whole > options.num_classes and not options.lr_epochs.warmup:
        yield Note(NoteKind.BATCH_ABOVE_CLASSES, {"batch": whole, "classes": options.num_classes})


def of_traffic(
    options: Options, parameter_bytes: int, windows: Sequence[Mapping[str, Any]]
) -> Iterator[Note]:
    """Notes a network that computes too little for what it sends."""
    if not is_distributed(options.kv_store) or not windows:
        return
    last = windows[-1]
    seconds = last["cpu_seconds"] / last["steps"]
    pushed = parameter_bytes / (16 if options.gc_type == "2bit" else 1)  # 2 bits for 32
    megabytes = (pushed + parameter_bytes) / 1e6
    if megabytes * 1e6 > _MANY_BYTES_A_SECOND * seconds:
        yield Note(NoteKind.LITTLE_COMPUTING, {"megabytes": megabytes, "seconds": seconds})


def of_loss(classes: int, windows: Sequence[Mapping[str, Any]]) -> Iterator[Note]:
    """Note a loss that is finite and absurd: guessing gives ln(classes)."""
    losses = [window["loss"] for window in windows]
    if losses and losses[-1] > max(losses[0], _ABSURD * math.log(classes)):
        yield Note(NoteKind.LOSS_ROSE, {"first": losses[0], "last": losses[-1]})


def show(notes: Iterable[Note]) -> None:
    """Prints each on stderr."""
    for line in texts(notes):
        echo(f"note: {line}", err=True)
