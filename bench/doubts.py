"""What a person should know of a job that runs as it was asked to."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bench.kvstores import is_distributed
from bench.options import Options

# A link of 1 Gbit/s carries as much; on a faster one servers' copies take their part.
_MANY_BYTES_A_SECOND = 125e6


def of_batch(options: Options, whole: int, images: int) -> Iterator[str]:
    """Doubts about a global batch of `whole` images, `images` an epoch."""
    if whole > images:
        yield f"the global batch of {whole} is more than the {images} images of an epoch"
    if whole > options.num_classes and not options.lr_epochs.warmup:
        yield (
            f"the global batch of {whole} is above the {options.num_classes} classes, where a "
            f"large --lr wants --warmup-epochs"
        )


def of_traffic(
    options: Options, parameter_bytes: int, windows: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Doubt about a network that computes too little for what it sends: both are in the line."""
    if not is_distributed(options.kv_store) or not windows:
        return
    last = windows[-1]
    seconds = last["cpu_seconds"] / last["steps"]
    pushed = parameter_bytes / (16 if options.gc_type == "2bit" else 1)  # 2 bits for 32
    megabytes = (pushed + parameter_bytes) / 1e6
    if megabytes * 1e6 > _MANY_BYTES_A_SECOND * seconds:
        yield (
            f"a step sends and fetches {megabytes:.3g} MB for {seconds:.3g} s of computing: too "
            f"little to scale well over a slow network, where a larger batch computes more for it"
        )


def show(lines: Iterable[str]) -> None:
    """Prints each on stderr."""
    for line in lines:
        print(f"note: {line}", file=sys.stderr, flush=True)
