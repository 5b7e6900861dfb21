"""A server or scheduler: `python -m bench.engines.server`, with DMLC_ROLE set.

MXNet serves during its import, in its kvstore_server module, and unpickles anything that reaches
its port. This module replaces that one and reads only commands that workers of its job signed.
"""

import ctypes
import os
import sys
import time
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

from bench.engines.server_commands import RefusedError, optimizer_of, secret
from bench.engines.server_updates import ServerUpdates
from bench.events import say
from bench.training.startup import announce_rendezvous
from im2rec_tools.terminal import echo

PROFILED = "--profiled"
_SAY_SECONDS = 1.0
# The first of these modules that MXNet imports is replaced. A scheduler needs MXNet's library only,
# which is loaded before mxnet.contrib; the operators after it take most of the start-up time.
_MODULES = {
    "server": ("mxnet.kvstore.kvstore_server",),
    "scheduler": ("mxnet.contrib", "mxnet.kvstore.kvstore_server"),
}


def main(*, profiled: bool = False) -> NoReturn:
    """Serve one job, then exit; exit with 2 unless DMLC_ROLE is server or scheduler.

    `profiled` servers may write the profile that their workers request.
    """
    role = os.environ.get("DMLC_ROLE", "")
    if role not in _MODULES:
        echo("DMLC_ROLE: expected server or scheduler. Start jobs by 'fab bench.sweep'", err=True)
        sys.exit(2)
    announce_rendezvous()
    sys.meta_path.insert(0, _Server(_MODULES[role], profiled=profiled))
    import bench.training.mxnet_shim  # noqa: F401, PLC0415

    raise RuntimeError(f"{_MODULES[role][-1]}: expected MXNet to import it")


class _Server(MetaPathFinder, Loader):
    """Modules of MXNet replaced: the first serves the job during its import."""

    def __init__(self, names: Sequence[str], *, profiled: bool) -> None:
        self._names, self._profiled = names, profiled

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of this module in place of one of MXNet's."""
        return ModuleSpec(fullname, self) if fullname in self._names else None

    def exec_module(self, module: ModuleType) -> NoReturn:
        """Serve the job to its end, then exit."""
        if not self._profiled:
            # MXNet writes profiles to the working directory for any program; /proc prevents that.
            os.chdir("/proc")
        if os.environ["DMLC_ROLE"] == "scheduler":
            _schedule()
        else:
            refusals = Refusals()
            _serve(refusals)
            refusals.close()
        sys.exit()


def _schedule() -> None:
    """Run the scheduler; return when the job ends."""
    from mxnet.base import _LIB, KVStoreHandle, c_str, check_call  # noqa: PLC0415

    handle = KVStoreHandle()
    check_call(_LIB.MXKVStoreCreate(c_str("dist"), ctypes.byref(handle)))
    _run(handle, lambda _head, _body, _: None)
    check_call(_LIB.MXKVStoreFree(handle))


def _serve(refusals: "Refusals") -> None:
    """Run the server; return when the job ends."""
    from mxnet.kvstore.base import create  # noqa: PLC0415
    from mxnet.optimizer import get_updater  # noqa: PLC0415

    store, key, servers = create("dist"), secret(), int(os.environ["DMLC_NUM_SERVER"])

    # MXNet's C++ handles all other commands itself; only these reach Python.
    def obey(_head: int, body: bytes | None, _: object) -> None:
        try:
            optimizer = optimizer_of(body or b"", key)
        except RefusedError as error:
            refusals.add(error)
        else:
            store._set_updater(ServerUpdates(get_updater(optimizer), servers))

    _run(store.handle, obey)


def _run(handle: Any, obey: Callable[[int, bytes | None, object], None]) -> None:
    """Run the store until the job ends; `obey` gets the workers' commands."""
    from mxnet.base import _LIB, check_call  # noqa: PLC0415

    callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(obey)
    check_call(_LIB.MXKVStoreRunServer(handle, callback, None))


class Refusals:
    """Counter of rejected commands; it reports at most once per second."""

    def __init__(self) -> None:
        self.count = self._said = 0
        self._at = -_SAY_SECONDS

    def add(self, error: RefusedError) -> None:
        """Count a rejected command."""
        self.count += 1
        if time.monotonic() - self._at >= _SAY_SECONDS:
            self._say(f"; the last: {error}")

    def close(self) -> None:
        """Report the rejected commands that were not reported yet."""
        if self.count > self._said:
            self._say("")

    def _say(self, last: str) -> None:
        self._said, self._at = self.count, time.monotonic()
        say("refused", {"count": self.count})
        echo(f"rejected commands: {self.count}{last}", err=True)


if __name__ == "__main__":
    main(profiled=PROFILED in sys.argv[1:])
