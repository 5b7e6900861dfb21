"""Import of MXNet 1.9.1 with a newer NumPy, which is left unchanged.

Every module uses `from bench.training.mxnet_shim import mx`. In a process whose DMLC_ROLE is server
or scheduler, this import serves the job and exits the process when the job ends.
"""

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any, NoReturn

import numpy as np

# Names that NumPy removed after 1.23 and that MXNet 1.9.1 uses during its import.
_SUCCESSORS: dict[str, Any] = {
    "bool": bool,
    "int": int,
    "float": float,
    "object": object,
    "Inf": np.inf,
    "NAN": np.nan,
    "NaN": np.nan,
    "NINF": -np.inf,
    "PINF": np.inf,
    "NZERO": -0.0,
    "PZERO": 0.0,
    "alltrue": np.all,
    "sometrue": np.any,
    "product": np.prod,
    "in1d": np.isin,
    "round_": np.round,
    "trapz": np.trapezoid,
}
_GONE = frozenset({"mirr", "npv", "pmt", "ppmt", "pv", "rate", "msort"})


def _removed(name: str) -> Callable[..., NoReturn]:
    def stub(*_args: object, **_kwargs: object) -> NoReturn:
        raise AttributeError(f"numpy.{name} was removed from NumPy and has no successor")

    return stub


@contextmanager
def _old_names() -> Iterator[None]:
    """Provide the names that NumPy removed while the block runs."""
    numpy: Any = np
    before = numpy.__getattr__

    def lookup(name: str) -> Any:
        if name in _SUCCESSORS:
            return _SUCCESSORS[name]
        return _removed(name) if name in _GONE else before(name)

    numpy.__getattr__ = lookup
    try:
        yield
    finally:
        numpy.__getattr__ = before


class LazyModule(ModuleType):
    """A module that is imported on the first use of an attribute."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        value = getattr(importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value


def _is_installed(name: str) -> bool:
    with suppress(ModuleNotFoundError):  # raised where the package that should hold it is missing
        return importlib.util.find_spec(name) is not None
    return False


@contextmanager
def _lazy_imports(*names: str) -> Iterator[None]:
    """Import these modules lazily in the block, if they are installed."""
    lazy = {
        name: LazyModule(name) for name in names if name not in sys.modules and _is_installed(name)
    }
    sys.modules.update(lazy)
    try:
        yield
    finally:
        for name, module in lazy.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


# MXNet imports these at start-up for a few functions; they take 40 % of its import time.
_RARELY_USED = ("requests", "scipy.sparse", "scipy.stats")

with _old_names(), _lazy_imports(*_RARELY_USED), warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import mxnet as mx

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
