"""Import hook for MXNet 1.9.1 with a newer NumPy, which is left unchanged.

`tools/environment.sh` copies this file into the environment, whose .pth file imports it in every
Python process. Then `import mxnet` works in any program. Until then, the hook loads no module.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing takes longer to load than all of this file
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, NoReturn

# Names that NumPy removed without a successor, and that MXNet 1.9.1 uses during its import.
_GONE = frozenset({"mirr", "npv", "pmt", "ppmt", "pv", "rate", "msort"})
# MXNet imports these at start-up for a few functions; they take 40 % of its import time.
_RARELY_USED = ("requests", "scipy.sparse", "scipy.stats")


def _successors(np: Any) -> dict[str, Any]:
    """Return successors of the names that NumPy removed and MXNet uses."""
    builtin = {"bool": bool, "int": int, "float": float, "object": object}
    numbers = {"NINF": -np.inf, "NZERO": -0.0, "PZERO": 0.0}
    numbers |= dict.fromkeys(("Inf", "PINF"), np.inf) | dict.fromkeys(("NAN", "NaN"), np.nan)
    functions = {"alltrue": np.all, "sometrue": np.any, "product": np.prod, "in1d": np.isin}
    renamed = {"round_": np.round, "trapz": getattr(np, "trapezoid", None)}
    return {**builtin, **numbers, **functions, **renamed}


def _removed(name: str) -> Callable[..., NoReturn]:
    def stub(*_args: object, **_kwargs: object) -> NoReturn:
        raise AttributeError(f"numpy.{name} was removed from NumPy and has no successor")

    return stub


def _lazy_modules() -> dict[str, ModuleType]:
    """Return stand-ins of modules that MXNet rarely uses, imported on first use."""
    import importlib.util  # noqa: PLC0415 - a process without mxnet needs none

    class LazyModule(type(sys)):  # type: ignore[misc]
        def __getattr__(self, name: str) -> Any:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
            value = getattr(importlib.import_module(self.__name__), name)
            setattr(self, name, value)
            return value

    def is_installed(name: str) -> bool:
        try:
            return importlib.util.find_spec(name) is not None
        except ModuleNotFoundError:  # the package that should hold it is missing
            return False

    wanted = [name for name in _RARELY_USED if name not in sys.modules]
    return {name: LazyModule(name) for name in wanted if is_installed(name)}


def _execute(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
    """Run MXNet's import with the names that NumPy removed; then remove them again."""
    import warnings  # noqa: PLC0415 - a process without mxnet needs none

    import numpy  # noqa: PLC0415

    changed: Any = numpy
    before, successors, lazy = changed.__getattr__, _successors(numpy), _lazy_modules()

    def lookup(name: str) -> Any:
        if name in successors:
            return successors[name]
        return _removed(name) if name in _GONE else before(name)

    changed.__getattr__ = lookup
    sys.modules.update(lazy)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            execute(module)
    finally:
        changed.__getattr__ = before
        for name, one in lazy.items():
            if sys.modules.get(name) is one:
                del sys.modules[name]


def _defer_operators(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
    """Run a module that defines MXNet's operators; each is compiled at its first call.

    MXNet compiles the text of 2,500 functions, half of the rest of its import time. A function has
    its name and its documentation before, but the signature (*args, **kwargs).
    """
    import re  # noqa: PLC0415 - a process without mxnet needs none

    def define(code: str, _: object, names: dict[str, Any]) -> None:
        match = re.search(r"^def (\w+)\(", code, re.MULTILINE)
        if match is None:
            exec(code, module.__dict__, names)
            return
        name = match[1]
        compiled: dict[str, Any] = {}

        def operator(*args: Any, **kwargs: Any) -> Any:
            if not compiled:
                exec(code, module.__dict__, compiled)
            return compiled[name](*args, **kwargs)

        operator.__qualname__ = name
        names[name] = operator

    module.__dict__["exec"] = define
    execute(module)


_HOOKS = {
    "mxnet": _execute,
    "mxnet.ndarray.register": _defer_operators,
    "mxnet.symbol.register": _defer_operators,
}


class MXNetFinder:
    """Finder of the modules in `_HOOKS` alone."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return MXNet's own spec with a loader that runs it by its hook."""
        if name not in _HOOKS:
            return None
        from importlib.machinery import PathFinder, SourceFileLoader  # noqa: PLC0415

        class Loader(SourceFileLoader):
            def exec_module(self, module: ModuleType) -> None:
                _HOOKS[name](super().exec_module, module)

        spec = PathFinder.find_spec(name, path, target)
        if spec and isinstance(spec.loader, SourceFileLoader):
            spec.loader = Loader(name, spec.loader.path)
        return spec


def __getattr__(name: str) -> Any:
    """Return mxnet as `mx`, for scripts that import it from here."""
    if name != "mx":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import mxnet  # noqa: PLC0415

    return mxnet


# First, so that a checkout's own hook precedes the one of its environment.
sys.meta_path.insert(0, MXNetFinder)
