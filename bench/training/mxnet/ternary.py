"""Ternary gradients (TernGrad): 2 bits per value.

A worker clips each array at 2.5 standard deviations of its own values, and replaces value by the
scaler or its negative with a probability of |value| / scaler, else by 0. The scaler of an array is
the largest clipped value of any worker. The expectation is the clipped value, within 2**-17 of the
scaler: the probability is a multiple of 2**-16.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist

_CLIP = 2.5
# Values quantized at a time: more do not fit into a core's cache, fewer cost more calls.
_BLOCK = 1 << 17
# Values of a number of 8 bytes, two bits each: byte b of number n has values 8 n + b of all four
# quarters of a block.
_PACKED, _LOWEST = 32, np.uint64(0x0303030303030303)
_SHIFTS = tuple(np.uint64(bits) for bits in (0, 2, 4, 6))
# A probability of 1 in units of the random numbers, which are at least minus half of it.
_ONE, _HALF = 1 << 16, 1 << 15
# The inverse of a smaller scaler is too large for a float32.
_LEAST = 1e-30
# Sums of more workers do not fit into 8 bits.
_MOST_OF_A_BYTE = 127


class _Block(NamedTuple):
    """Memory from `start` to `stop`.

    `parts` are its arrays: index, start and stop.
    """

    start: int
    stop: int
    parts: list[tuple[int, int, int]]

    @property
    def packed(self) -> int:
        """Return how many numbers its packed values take."""
        return -(-(self.stop - self.start) // _PACKED)


class Quantizer:
    """Quantizes one worker's gradients, with random numbers of its own."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.SFC64(seed)
        # A tensor, because a scaled sum of two tensors is one pass.
        self._zero = torch.tensor(_ONE + _HALF + 0.5)
        self._scaled = self._zero.repeat(_BLOCK)
        self._whole = np.empty(_BLOCK, np.int32)
        self._found = np.empty(_BLOCK, np.uint8)

    def packed_bytes(self, places: Sequence[slice]) -> int:
        """Return the bytes that a bucket has when packed, with its scalers."""
        return 8 * sum(block.packed for block in _blocks(places)) + 4 * len(places)

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
        at, limits = 0, bounds.tolist()
        units = [_ONE / one if one > _LEAST else 0.0 for one in scalers.tolist()]
        found = list(_blocks(places))
        packed = np.zeros(sum(block.packed for block in found), np.uint64)
        for block in found:
            for index, start, stop in block.parts:
                scaled = self._scaled[start - block.start : stop - block.start]
                torch.clamp(memory[start:stop], -limits[index], limits[index], out=scaled)
                torch.add(self._zero, scaled, alpha=units[index], out=scaled)
            numbers = packed[at : at + block.packed]
            for bits, quarter in zip(_SHIFTS, self._drawn(block.packed), strict=True):
                numbers |= np.left_shift(quarter, bits, out=quarter)
            at += block.packed
        return torch.from_numpy(packed.view(np.uint8))

    def _drawn(self, packed: int) -> Any:
        """Return 0, 1 or 2 for -1, 0 or 1, one per byte.

        Each row has the numbers of a quarter.
        """
        size = packed * _PACKED
        whole, found = self._whole[:size], self._found[:size]
        # round(_ONE * (1 + value / scaler)) + a random number of 0 to _ONE - 1, divided by _ONE
        torch.from_numpy(whole).copy_(self._scaled[:size])
        whole += self._random.random_raw(size // 4).view(np.int16)
        whole >>= 16
        np.copyto(found, whole, casting="unsafe")
        quarters = found.view(np.uint64).reshape(4, -1)
        quarters &= _LOWEST  # values that are not a number
        return quarters


def _blocks(places: Sequence[slice]) -> Iterator[_Block]:
    """Yield blocks of the memory of these arrays, which follow one another."""
    end = places[-1].stop
    for start in range(places[0].start, end, _BLOCK):
        stop = min(start + _BLOCK, end)
        parts = [
            (index, max(start, place.start), min(stop, place.stop))
            for index, place in enumerate(places)
            if place.start < stop and start < place.stop
        ]
        yield _Block(start, stop, parts)


def clipping(memory: Any, places: Sequence[slice]) -> tuple[Any, Any]:
    """Return by array the value to clip at, and the largest clipped value."""
    bounds = torch.tensor([_bound(memory[place]) for place in places])
    return bounds, bounds.clone()


def _bound(values: Any) -> float:
    """Return the value to clip at, which is the largest clipped one."""
    size, parts = values.numel(), values.split(_BLOCK)
    if size == 1:
        return abs(float(values))
    total = square = 0.0
    for part in parts:
        total += float(part.sum())
        square += float(part.dot(part))
    variance = max(square / size - (total / size) ** 2, 0.0)
    bound = _CLIP * math.sqrt(variance)
    top = 0.0
    for part in parts:  # the first is mostly enough
        low, high = (float(one) for one in part.aminmax())
        top = max(top, -low, high)
        if top >= bound:
            break
    return min(bound, top)


def restore(memory: Any, places: Sequence[slice], scalers: Any, gathered: Sequence[Any]) -> None:
    """Write the sums of all workers' packed values into these arrays."""
    workers = len(gathered)
    total: Any = np.empty(_BLOCK, np.int8 if workers <= _MOST_OF_A_BYTE else np.int16)
    found, values = np.empty(_BLOCK // _PACKED, np.uint64), torch.empty(_BLOCK)
    packed, factors = [one.numpy().view(np.uint64) for one in gathered], scalers.tolist()
    at = 0
    for block in _blocks(places):
        size, part = block.packed * _PACKED, found[: block.packed]
        quarters = total[:size].reshape(4, -1)
        quarters.fill(-workers)
        for numbers in packed:
            for bits, quarter in zip(_SHIFTS, quarters, strict=True):
                np.right_shift(numbers[at : at + block.packed], bits, out=part)
                np.bitwise_and(part, _LOWEST, out=part)
                np.add(quarter, part.view(np.int8), out=quarter)
        values[:size].copy_(torch.from_numpy(total[:size]))
        for index, start, stop in block.parts:
            summed = values[start - block.start : stop - block.start]
            torch.mul(summed, factors[index], out=memory[start:stop])
        at += block.packed
