"""The former name of bench.training.mxnet_shim, for scripts that import `mx` from here."""

from bench.training.mxnet_shim import mx

__all__ = ["mx"]
