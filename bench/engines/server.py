"""A server or scheduler: `python -m bench.engines.server`, with DMLC_ROLE set.

MXNet serves during its import, in its kvstore_server module, and unpickles anything that reaches
its port. This module replaces that one and reads only commands that workers of its job signed.
"""

import ctypes
import os
import sys
import time
from collections.abc import Sequence
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
_ROLES = ("server", "scheduler")
_SAY_SECONDS = 1.0
_MODULE = "mxnet.kvstore.kvstore_server"


def main(*, profiled: bool = False) -> NoReturn:
    """Serve one job, then exit; exit with 2 unless DMLC_ROLE is server or scheduler.

    `profiled` servers may write the profile that their workers request.
    """
    if os.environ.get("DMLC_ROLE") not in _ROLES:
        echo("DMLC_ROLE: expected server or scheduler. Start jobs by 'fab bench.sweep'", err=True)
        sys.exit(2)
    announce_rendezvous()
    sys.meta_path.insert(0, _Server(profiled=profiled))
    import bench.training.mxnet_shim  # noqa: F401, PLC0415

    raise RuntimeError(f"{_MODULE}: expected MXNet to import it")


class _Server(MetaPathFinder, Loader):
    """MXNet's server module replaced: it serves the job during its import."""

    def __init__(self, *, profiled: bool) -> None:
        self._profiled = profiled

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of this module in place of MXNet's."""
        return ModuleSpec(fullname, self) if fullname == _MODULE else None

    def exec_module(self, module: ModuleType) -> NoReturn:
        """Serve the job to its end, then exit."""
        from mxnet.kvstore.base import create  # noqa: PLC0415

        if not self._profiled:
            # MXNet writes profiles to the working directory for any program; /proc prevents that.
            os.chdir("/proc")
        refusals = Refusals()
        _serve(create("dist"), refusals)
        refusals.close()
        sys.exit()


def _serve(store: Any, refusals: "Refusals") -> None:
    """Run the server; return when the job ends."""
    from mxnet.base import _LIB, check_call  # noqa: PLC0415
    from mxnet.optimizer import get_updater  # noqa: PLC0415

    key, servers = secret(), int(os.environ["DMLC_NUM_SERVER"])

    # MXNet's C++ handles all other commands itself; only these reach Python.
    def obey(_head: int, body: bytes | None, _: object) -> None:
        try:
            optimizer = optimizer_of(body or b"", key)
        except RefusedError as error:
            refusals.add(error)
        else:
            store._set_updater(ServerUpdates(get_updater(optimizer), servers))

    callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(obey)
    check_call(_LIB.MXKVStoreRunServer(store.handle, callback, None))


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
