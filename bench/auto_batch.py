"""Finds the largest batch a device that fits into memory: doubles it, then bisects.

    python -m bench.auto_batch --network resnet-50 --gpus 0,1

Each try is a process of its own that trains six steps, since MXNet does not recover. On CPU a
worker may take 85 % of its share of what memory is free, or of what its limits (RLIMIT, cgroup)
leave.
"""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench import events
from bench.arguments import MOST_BATCH, empty
from bench.errors import SmallShareError, SpecError
from bench.kvstores import is_distributed
from bench.memory import ran_out
from bench.options import Options, parse

_SECONDS = 600.0
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_CGROUP = Path("/sys/fs/cgroup")
# Of what is free or allowed. Runs of one batch were seen to differ by 10 % in what they take, by
# whether a batch is freed before the next one is there; saving takes 4 % more.
_USED = 0.85
# Said last, these count: six steps, as many as memory was seen to grow in, and nothing is written.
_SHORT = (
    *("--windows=1", "--warmup-windows=1", "--steps-per-window=3", "--precision=0"),
    *("--data-val=", "--monitor=0"),
    *("--model-prefix=", "--load-epoch=0", "--profile-worker-suffix=", "--profile-server-suffix="),
)
# What a worker fails with if its batch needs more memory, or more images, than there are.
_TOO_LARGE = frozenset({MemoryError.__name__, SmallShareError.__name__})
_BATCHES = frozenset({"--batch-size", "--global-batch", "--auto-batch"})


@dataclass(frozen=True, kw_only=True)
class Tried:
    """What is tried: a worker, by its whole command, and who shares the machine's memory with it.

    devices   of this worker
    gpu       whether they have memory of their own
    workers   processes like this one that the machine's memory is for
    servers   of their parameters, each of which is given what a worker takes with a batch of 1
    env       of the command, beside this process's own
    name      what is said before each try
    """

    command: tuple[str, ...]
    devices: int = 1
    gpu: bool = False
    workers: int = 1
    servers: int = 0
    env: dict[str, str] = field(default_factory=dict)
    name: str = ""


def largest(fits: Callable[[int], bool], most: int = MOST_BATCH, good: int = 0) -> int:
    """The largest number up to `most` that fits, where all below one that fits do; 0: none.

    `good` is known to fit.
    """
    bad = max(1, 2 * good)
    while bad <= most and fits(bad):
        good, bad = bad, bad * 2
    bad = min(bad, most + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


def find(tried: Tried, most: int = MOST_BATCH) -> int:
    """The largest batch a device, up to `most`, that fits; SpecError where there is none."""
    fit, taken = _try(tried, 1, 0)
    if not fit:
        raise SpecError(
            f"{tried.name}not even a batch of 1 a device fits; try MXNET_BACKWARD_DO_MIRROR=1"
        )
    return largest(lambda batch: _try(tried, batch, taken)[0], most, good=1)


def narrowed(tried: Tried, batch: int) -> int:
    """As `find`, where no more than this batch is wanted, which probably fits."""
    _, taken = _try(tried, 1, 0) if tried.servers else (True, 0)
    return batch if _try(tried, batch, taken)[0] else find(tried, batch - 1)


def free_bytes() -> int:
    """Memory that a process here may still take, by the kernel and this process's cgroup."""
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    kib = next(line.split()[1] for line in lines if line.startswith("MemAvailable"))
    limit, used = (_number(_CGROUP / f"memory.{name}") for name in ("max", "current"))
    return min(int(kib) * 1024, sys.maxsize if limit is None else max(0, limit - (used or 0)))


def _number(path: Path) -> int | None:
    text = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    return int(text) if text.isdigit() else None


def _limit(share: int) -> None:
    """Holds this process to its share of memory, or to what of its own limits is used."""
    for kind in (resource.RLIMIT_DATA, resource.RLIMIT_AS):
        soft, hard = resource.getrlimit(kind)
        amount = share if kind == resource.RLIMIT_DATA else resource.RLIM_INFINITY
        own = int(soft * _USED) if soft != resource.RLIM_INFINITY else soft
        known = [one for one in (own, hard, amount) if one != resource.RLIM_INFINITY]
        resource.setrlimit(kind, (min(known, default=resource.RLIM_INFINITY), hard))


def _begin(share: int | None) -> None:
    """Lets the kernel end this process with the one that tries, and hold it to its memory."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if share is not None:
        _limit(share)


def _try(tried: Tried, batch: int, server: int) -> tuple[bool, int]:
    """Whether the batch fits, and the bytes it took, where a server takes so many."""
    share = (int(free_bytes() * _USED) - tried.servers * server) // tried.workers
    begin = partial(_begin, None if tried.gpu else max(0, share))
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as stream:
        child = subprocess.Popen(
            [*tried.command, *_SHORT, f"--batch-size={batch * tried.devices}"],
            env=os.environ | tried.env | {events.STREAM_VARIABLE: str(stream.fileno())},
            pass_fds=(stream.fileno(),),
            stdout=subprocess.DEVNULL,
            stderr=said,
            preexec_fn=begin,  # noqa: PLW1509 - a few calls, and none of our threads runs
        )
        code, taken = _ended(child)
        said.seek(0)
        errors = said.read().strip()
        stream.seek(0)
        failed = {event.values.get("error") for event in filter(None, map(events.parse, stream))}
    # The kernel kills what takes the last of a machine's memory; some libraries abort.
    full = code != 0 and (code == -9 or ran_out(RuntimeError(errors)) or bool(failed & _TOO_LARGE))
    if code and not full:
        last = (errors or "it said nothing").splitlines()[-1]
        raise SpecError(f"{tried.name}a batch of {batch} a device fails for another reason: {last}")
    told = "does not fit" if full else "fits"
    print(f"{tried.name}{batch} a device {told}", file=sys.stderr, flush=True)
    return not full, taken


def _ended(child: subprocess.Popen[bytes]) -> tuple[int, int]:
    """Its exit code and the most bytes it had; SpecError where it takes too long."""
    late = threading.Event()

    def end() -> None:
        late.set()
        child.kill()

    timer = threading.Timer(_SECONDS, end)
    timer.start()
    try:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    finally:
        timer.cancel()
        if child.returncode is None:  # an interrupt
            child.kill()
            child.wait()
    if late.is_set():
        raise SpecError(
            f"a try took more than {_SECONDS:.0f} s; say how much is enough: --auto-batch=MOST"
        )
    return child.returncode, usage.ru_maxrss * 1024


def _without_batch(argv: Sequence[str]) -> list[str]:
    taker = empty("auto_batch", "")
    for name in _BATCHES:
        taker.add_argument(name, nargs="?")
    return taker.parse_known_args(argv)[1]


def found(options: Options, argv: Sequence[str], workers: int = 1) -> int:
    """The largest batch a device for a worker of these options, typed so; SpecError if none."""
    if is_distributed(options.kv_store):
        raise SpecError(
            f"--kv-store {options.kv_store}: a batch has to fit each worker by itself; give "
            f"device or local"
        )
    if options.test_io or options.bandwidth:
        raise SpecError("--test-io, --bandwidth: nothing is trained, so any batch fits")
    if workers < 1:
        raise SpecError(f"--workers: expected 1 or more, got {workers}")
    words = [*_without_batch(argv), *(() if options.data_train else ("--benchmark=1",))]
    tried = Tried(
        command=(sys.executable, "-m", "bench.train_imagenet", *words),
        devices=options.devices,
        gpu=bool(options.gpus),
        workers=workers,
    )
    return find(tried, options.auto_batch or MOST_BATCH)


def sized(options: Options, argv: Sequence[str]) -> Sequence[str]:
    """What was typed, with the batch that fits in place of --auto-batch where that was."""
    if not options.auto_batch:
        return argv
    device = found(options, argv)
    worker = device * options.devices
    print(f"{device} images a device: --batch-size {worker}", file=sys.stderr, flush=True)
    return [*_without_batch(argv), f"--batch-size={worker}"]


def main() -> None:
    """Prints the largest batch a device; exits 2 where none fits or the options are wrong."""
    taker = empty("auto_batch", "Finds the largest batch a device; takes train_imagenet's options.")
    taker.add_argument("--workers", type=int, default=1, help="that share a machine's memory")
    try:
        typed, argv = taker.parse_known_args(sys.argv[1:])
        data = () if any(word.startswith("--data-train") for word in argv) else ("--benchmark=1",)
        options = parse([*argv, *data, "--windows=1"])
        device = found(options, argv, typed.workers)
    except SpecError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    print(f"{device} images a device: --batch-size {device * options.devices}")


if __name__ == "__main__":
    main()
