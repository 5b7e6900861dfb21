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
# Values of a byte, and values quantized at a time. Smaller blocks cost more calls than they save.
_PACKED, _BLOCK = 4, 1 << 17
# A probability of 1 in units of the random numbers, which are at least minus half of it.
_ONE, _HALF = 1 << 16, 1 << 15
# The inverse of a smaller scaler is too large for a float32.
_LEAST = 1e-30
# Moves the lowest bits of four bytes beside each other, into the highest byte.
_GATHER, _HIGHEST = np.uint32(1 << 24 | 1 << 18 | 1 << 12 | 1 << 6), np.uint32(24)
# The four values of each byte, as one number of 16 bytes.
_QUARTETS = (np.arange(256)[:, None] >> np.arange(0, 8, 2) & 3).astype(np.float32) - 1
_UNPACKED = _QUARTETS.view(np.complex128)[:, 0]


class Quantizer:
    """Quantizes one worker's gradients, with random numbers of its own."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.SFC64(seed)
        self._scaled = torch.empty(_BLOCK)
        self._whole = torch.empty(_BLOCK, dtype=torch.int32)
        self._found = torch.empty(_BLOCK, dtype=torch.uint8)

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
        packed = np.empty(sum(-(-(b - a) // _PACKED) for a, b in blocks(places)), np.uint8)
        at = 0
        for place, bound, scaler in zip(places, bounds.tolist(), scalers.tolist(), strict=True):
            for start, stop in blocks([place]):
                each = -(-(stop - start) // _PACKED)
                quartets = self._ternary(memory[start:stop], bound, scaler)
                packed[at : at + each] = quartets * _GATHER >> _HIGHEST
                at += each
        return torch.from_numpy(packed)

    def _ternary(self, values: Any, bound: float, scaler: float) -> Any:
        """Return 0, 1 or 2 for -1, 0 or 1, one per byte, as numbers of four bytes."""
        size = values.numel()
        padded = -(-size // _PACKED) * _PACKED
        drawn = self._random.random_raw(padded // _PACKED).view(np.int16)[:size]
        unit = _ONE / scaler if scaler > _LEAST else 0.0
        scaled, whole = self._scaled[:size], self._whole[:size]
        # round(_ONE * (1 + value / scaler)) + a random number of 0 to _ONE - 1, divided by _ONE
        torch.clamp(values, -bound, bound, out=scaled).mul_(unit).add_(_ONE + _HALF + 0.5)
        whole.copy_(scaled).add_(torch.from_numpy(drawn)).bitwise_right_shift_(16)
        self._found[:size].copy_(whole)
        self._found[size:padded] = 1
        return self._found.numpy()[:padded].view("<u4")


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


def restore(memory: Any, places: Sequence[slice], scalers: Any, gathered: Sequence[Any]) -> None:
    """Write the sums of all workers' packed values into these arrays."""
    summed, other = (np.empty(_BLOCK, np.float32) for _ in range(2))
    at = 0
    for place, scaler in zip(places, scalers.tolist(), strict=True):
        for start, stop in blocks([place]):
            each = -(-(stop - start) // _PACKED)
            first, *others = (one.numpy()[at : at + each] for one in gathered)
            total, more = (one[: each * _PACKED] for one in (summed, other))
            _unpack(first, total)
            for one in others:
                _unpack(one, more)
                total += more
            values = torch.from_numpy(total[: stop - start])
            torch.mul(values, scaler, out=memory[start:stop])
            at += each


def _unpack(packed: Any, values: Any) -> None:
    """Write the values of these bytes to an array."""
    np.take(_UNPACKED, packed, out=values.view(_UNPACKED.dtype), mode="clip")
