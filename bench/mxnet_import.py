"""Former name of bench.training.mxnet_shim, for scripts that import it."""

from bench.training.mxnet_shim import mx

__all__ = ["mx"]
