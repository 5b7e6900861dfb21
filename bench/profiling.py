"""MXNet's profiler over a job: a file for this worker, and one for each server."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import SpecError
from bench.mxnet_import import mx

if TYPE_CHECKING:
    from bench.worker import Worker


@contextmanager
def profiled(worker: "Worker") -> Iterator[None]:
    """Profiles what runs inside, where the options ask for it.

    The worker's file is rank<N>_SUFFIX. Rank 0 asks the servers; each writes rank<N>_SUFFIX, by
    its own number, into the folder it was started in.
    """
    roles = _asked(worker)
    for role, name in roles:
        mx.profiler.set_config(filename=name, profile_all=True, profile_process=role)
        mx.profiler.set_state("run", profile_process=role)
    yield
    mx.nd.waitall()
    for role, _ in roles:
        mx.profiler.set_state("stop", profile_process=role)
        mx.profiler.dump(profile_process=role)


def _check(path: Path) -> None:
    """SpecError where no file of this name can be written: MXNet would say nothing."""
    try:
        if not path.name:
            raise FileNotFoundError
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise SpecError(
            f"--profile-worker-suffix {path}: expected a file's name, in a folder to write to"
        ) from error


def _asked(worker: "Worker") -> list[tuple[str, str]]:
    options, found = worker.options, []
    if options.profile_worker_suffix:
        path = Path(options.profile_worker_suffix)
        _check(path)
        found.append(("worker", str(path.with_name(f"rank{worker.rank}_{path.name}"))))
    if options.profile_server_suffix and worker.rank == 0:
        mx.profiler.set_kvstore_handle(worker.kvstore.handle)
        found.append(("server", options.profile_server_suffix))
    return found
