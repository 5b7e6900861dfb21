"""Ternary gradients (TernGrad): 2 bits per value.

A worker clips each array at 2.5 standard deviations of its own values, and replaces value by the
scaler or its negative with a probability of |value| / scaler, else by 0. The scaler of an array is
the largest clipped value of any worker. The expectation is the clipped value, within 2**-17 of the
scaler: the probability is a multiple of 2**-16.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

_CLIP = 2.5
# Values of a byte, and values quantized at a time; a block stays in a core's cache.
_PACKED, _BLOCK = 4, 1 << 15
# A probability of 1 in units of the random numbers.
_ONE = 1 << 16
# The inverse of a smaller scaler is too large for a float32.
_LEAST = 1e-30


class Quantizer:
    """Quantizes one worker's gradients, with random numbers of its own."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.SFC64(seed)

    def packed_bytes(self, places: Sequence[slice]) -> int:
        """Return the bytes that a bucket has when packed, with its scalers."""
        sizes = [stop - start for start, stop in blocks(places)]
        return sum(-(-size // _PACKED) for size in sizes) + 4 * len(places)

    def add_up(self, memory: Any, places: Sequence[slice]) -> None:
        """Replace these arrays by the sums over all workers of their ternary values."""
        bounds, scalers = clipping(memory, places)
        # The largest value of gloo skips those that are not a number.
        scalers.nan_to_num_(nan=math.inf)
        dist.all_reduce(scalers, dist.ReduceOp.MAX)
        own = self.quantize(memory, places, bounds, scalers)
        gathered = [torch.empty_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(gathered, own)
        restore(memory, places, scalers, gathered)

    def quantize(self, memory: Any, places: Sequence[slice], bounds: Any, scalers: Any) -> Any:
        """Return the packed ternary values of these arrays, clipped at `bounds`."""
        packed = torch.empty(sum(-(-(b - a) // _PACKED) for a, b in blocks(places)), dtype=_BYTE)
        at = 0
        for place, bound, scaler in zip(places, bounds.tolist(), scalers.tolist(), strict=True):
            for start, stop in blocks([place]):
                each = -(-(stop - start) // _PACKED)
                _pack(self._ternary(memory[start:stop], bound, scaler), packed[at : at + each])
                at += each
        return packed

    def _ternary(self, values: Any, bound: float, scaler: float) -> Any:
        """Return 0, 1 or 2 for -1, 0 or 1, in a multiple of four bytes."""
        size = values.numel()
        padded = -(-size // _PACKED) * _PACKED
        raw = self._random.random_raw(padded // _PACKED).view(np.uint16)[:size]
        unit = _ONE / scaler if scaler > _LEAST else 0.0
        # round(_ONE * (1 + value / scaler)) + a random number below _ONE, divided by _ONE
        scaled = values.clamp(-bound, bound).mul_(unit).add_(_ONE + 0.5).to(torch.int32)
        found = torch.ones(padded, dtype=_BYTE)
        drawn = torch.from_numpy(raw.astype(np.int32))
        found[:size] = scaled.add_(drawn).bitwise_right_shift_(16)
        return found


_BYTE = torch.uint8


def blocks(places: Sequence[slice]) -> list[tuple[int, int]]:
    """Return first and last value of each block of these arrays."""
    return [
        (start, min(start + _BLOCK, place.stop))
        for place in places
        for start in range(place.start, place.stop, _BLOCK)
    ]


def clipping(memory: Any, places: Sequence[slice]) -> tuple[Any, Any]:
    """Return by array the value to clip at, and the largest clipped value."""
    bounds, largest = [], []
    for place in places:
        values = memory[place]
        size = values.numel()
        mean = float(values.sum()) / size
        variance = max(float(values.dot(values)) / size - mean * mean, 0.0)
        low, high = (float(one) for one in values.aminmax())
        top = max(-low, high)
        bounds.append(min(_CLIP * variance**0.5, top) if size > 1 else top)
        largest.append(bounds[-1])
    return torch.tensor(bounds), torch.tensor(largest)


def _pack(ternary: Any, packed: Any) -> None:
    """Pack the quarters of a block into bytes, two bits each."""
    first, second, third, fourth = ternary.view(_PACKED, -1)
    packed.copy_(first)
    packed.bitwise_or_(second << 2).bitwise_or_(third << 4).bitwise_or_(fourth << 6)


def restore(memory: Any, places: Sequence[slice], scalers: Any, gathered: Sequence[Any]) -> None:
    """Write the sums of all workers' packed values into these arrays."""
    at, workers = 0, len(gathered)
    kind = torch.uint8 if 2 * workers < 256 else torch.int32
    for place, scaler in zip(places, scalers.tolist(), strict=True):
        for start, stop in blocks([place]):
            each = -(-(stop - start) // _PACKED)
            summed = torch.zeros((_PACKED, each), dtype=kind)
            for one in gathered:
                packed = one[at : at + each]
                for shift, quarter in zip((0, 2, 4, 6), summed, strict=True):
                    quarter.add_((packed >> shift).bitwise_and_(3))
            values = memory[start:stop]
            values.copy_(summed.view(-1)[: stop - start])
            values.sub_(workers).mul_(scaler)
            at += each
