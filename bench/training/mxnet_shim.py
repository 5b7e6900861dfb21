"""Import of MXNet 1.9.1 with a newer NumPy, which is left unchanged.

Every module uses `from bench.training.mxnet_shim import mx`. In a process whose DMLC_ROLE is server
or scheduler, this import serves the job and exits the process when the job ends.
"""

from typing import Any

from bench import mxnet_import

mx = mxnet_import.mx

__all__ = ["mx"]

_CHANNELS = 64


def rounds_to_tf32(context: Any) -> bool:
    """Return whether convolutions on this device round to TF32.

    TF32 drops the twelfth fractional bit.
    """
    images = mx.nd.full((8, _CHANNELS, 16, 16), 1 + 2**-12, ctx=context)
    ones = mx.nd.ones((_CHANNELS, _CHANNELS, 1, 1), ctx=context)
    sums = mx.nd.Convolution(images, ones, kernel=(1, 1), num_filter=_CHANNELS, no_bias=True)
    return bool(sums[0, 0, 0, 0].asscalar() != _CHANNELS * (1 + 2**-12))
