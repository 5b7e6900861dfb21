"""The whole program of a server or a scheduler: `python -m bench.serve`, with DMLC_ROLE set.

MXNet would serve while it is imported, and unpickle whatever reaches its port. So it is imported
as a worker imports it, and a server of ours serves: it reads what workers of its job have signed.
"""

import os
import sys
import time
from typing import Any, NoReturn

from bench.commands import RefusedError, optimizer_of, secret
from bench.events import Event, say
from bench.rendezvous import announce
from im2rec_tools.terminal import echo

PROFILED = "--profiled"
_ROLES = ("server", "scheduler")
_SAY_SECONDS = 1.0


def main(*, profiled: bool = False) -> NoReturn:
    """Serve one job, then exit; exit 2 if the environment names no role of these.

    `profiled` servers may write the profile that their workers ask for.
    """
    role = os.environ.get("DMLC_ROLE")
    if role not in _ROLES:
        echo("DMLC_ROLE: expected server or scheduler; 'fab bench.sweep' sets it", err=True)
        sys.exit(2)
    announce()
    os.environ["DMLC_ROLE"] = "worker"
    from bench.mxnet_import import mx  # noqa: PLC0415

    os.environ["DMLC_ROLE"] = role
    if not profiled:
        # MXNet writes profiles where it stands, for any program that asks; here nobody can.
        os.chdir("/proc")
    refusals = Refusals()
    _server(mx.kv.create("dist"), refusals).run()
    refusals.close()
    sys.exit()


def _server(store: Any, refusals: "Refusals") -> Any:
    """MXNet's server, with a reader of commands that trusts nobody but workers of this job."""
    from mxnet.kvstore.kvstore_server import KVStoreServer  # noqa: PLC0415

    key = secret()

    # MXNet's C++ obeys all other commands by itself: these alone reach Python.
    def obey(_head: int, body: bytes, _: object) -> None:
        try:
            optimizer = optimizer_of(body or b"", key)
        except RefusedError as error:
            refusals.add(error)
        else:
            store.set_optimizer(optimizer)

    server = KVStoreServer(store)
    server._controller = lambda: obey
    return server


class Refusals:
    """Commands that were refused: counted, and reported once a second at most."""

    def __init__(self) -> None:
        self.count = self._said = 0
        self._at = -_SAY_SECONDS

    def add(self, error: RefusedError) -> None:
        """Count one more."""
        self.count += 1
        if time.monotonic() - self._at >= _SAY_SECONDS:
            self._say(f"; the last: {error}")

    def close(self) -> None:
        """Report those that were not reported yet."""
        if self.count > self._said:
            self._say("")

    def _say(self, last: str) -> None:
        self._said, self._at = self.count, time.monotonic()
        say(Event(kind="refused", rank=-1, values={"count": self.count}))
        echo(f"commands refused: {self.count}{last}", err=True)


if __name__ == "__main__":
    main(profiled=PROFILED in sys.argv[1:])
