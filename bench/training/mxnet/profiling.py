"""MXNet's profiler, and the statistics of --monitor."""

import json
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.errors import SpecError, error_line
from bench.training.mxnet_shim import mx
from im2rec_tools.terminal import echo

if TYPE_CHECKING:
    from bench.training.mxnet.worker import Worker


@contextmanager
def profile(worker: "Worker") -> Iterator[None]:
    """Profile the block if the options request it.

    The worker's file is rank<N>_SUFFIX. Rank 0 sends the request to the servers; each writes
    rank<N>_SUFFIX, with its own number, into its working directory.
    """
    roles = _profiler_files(worker)
    for role, name in roles:
        mx.profiler.set_config(filename=name, profile_all=True, profile_process=role)
        if role == "server" or not worker.options.profile_batches:
            mx.profiler.set_state("run", profile_process=role)
    yield
    mx.nd.waitall()
    for role, name in roles:
        mx.profiler.set_state("stop", profile_process=role)
        _dump(worker, role)
        if role == "worker":
            _add_host(Path(name))


def _dump(worker: "Worker", role: str) -> None:
    """Write the profile; SpecError if the job ended before the first batch to profile."""
    try:
        mx.profiler.dump(profile_process=role)
    except mx.MXNetError as error:  # the profiler never ran
        if not worker.options.profile_batches:
            raise
        first, last = worker.options.profile_batches
        fix = "Give batches that the job trains; they count from 1"
        got = f"{first}:{last}, and the job ended before them"
        raise SpecError(
            error_line("--profile-batches", expected="batches of the job", got=got, fix=fix)
        ) from error


def _add_host(path: Path) -> None:
    """Add this host's name to a trace; a merged one shows none if that fails."""
    added = json.dumps({"host": socket.gethostname()})
    with suppress(OSError, ValueError), path.open("r+b") as file:
        # MXNet's object ends with its brace and a line end.
        start = file.seek(max(file.seek(0, os.SEEK_END) - 64, 0))
        file.seek(start + file.read().rindex(b"}"))
        file.write(f', "otherData": {added}}}\n'.encode())


def _check(path: Path) -> None:
    """Raise SpecError if the file cannot be written; MXNet would not report it."""
    try:
        if not path.name:
            raise FileNotFoundError
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise SpecError(
            error_line(
                "--profile-worker-suffix",
                expected="a file name in a writable folder",
                got=f"{str(path)!r}",
            )
        ) from error


def _profiler_files(worker: "Worker") -> list[tuple[str, str]]:
    options, found = worker.options, []
    if options.profile_worker_suffix:
        path = Path(options.profile_worker_suffix)
        _check(path)
        found.append(("worker", str(path.with_name(f"rank{worker.rank}_{path.name}"))))
    if options.profile_server_suffix and worker.rank == 0:
        mx.profiler.set_kvstore_handle(worker.kvstore.handle)
        found.append(("server", options.profile_server_suffix))
    return found


def start() -> None:
    """Start profiling with the next batch; stop it before the end of its window.

    Between windows are probes and validations, which belong to no batch.
    """
    mx.nd.waitall()
    mx.profiler.set_state("run")


def stop() -> None:
    """Stop profiling after the work of the current batch."""
    mx.nd.waitall()
    mx.profiler.set_state("stop")


def print_statistics(worker: "Worker", batch: Any, number: int) -> None:
    """Print the RMS of weights, gradients and scores every --monitor batches.

    Call it before the update. The gradients are sums over the batch of the worker's first device.
    It waits for MXNet's work, so such windows are not valid throughput results.
    """
    every = worker.options.monitor
    if not every or number % every:
        return
    for name, value in _arrays(worker, batch):
        norm = float(mx.nd.norm(value.astype("float32")).asscalar())
        line = f"rank {worker.rank} batch {number} {name}: {norm / value.size**0.5:.6g}"
        echo(line, err=True)
    sys.stderr.flush()


def _arrays(worker: "Worker", batch: Any) -> Iterator[tuple[str, Any]]:
    for name, parameter in worker.net.collect_params().items():
        yield name, parameter.data(worker.contexts[0])
        if parameter.grad_req != "null":
            yield f"{name} gradient", parameter.grad(worker.contexts[0])
    yield "scores", worker.net(batch[0][0])
