"""Whether float32 is multiplied as such: newer GPUs may keep ten bits of a factor (TF32)."""

from typing import Any

from bench.mxnet_import import mx

_CHANNELS = 64


def rounds_to_tf32(context: Any) -> bool:
    """Whether a convolution on this device loses the twelfth bit behind the point."""
    images = mx.nd.full((8, _CHANNELS, 16, 16), 1 + 2**-12, ctx=context)
    ones = mx.nd.ones((_CHANNELS, _CHANNELS, 1, 1), ctx=context)
    sums = mx.nd.Convolution(images, ones, kernel=(1, 1), num_filter=_CHANNELS, no_bias=True)
    return bool(sums[0, 0, 0, 0].asscalar() != _CHANNELS * (1 + 2**-12))
