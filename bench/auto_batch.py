"""Find the largest batch per device that fits into memory: double it, then bisect.

    python -m bench.auto_batch --network resnet-50 --gpus 0,1

Each try is a process of its own that trains six steps, since MXNet does not recover. On CPU a
worker may take 85 % of its share of what memory is free (by the kernel and its cgroup), and all
that its own limits (ulimit -v, -d) allow, but for a tenth of what the images take.
"""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

if not __package__:
    print("run `python -m bench.auto_batch ...` in this checkout", file=sys.stderr)
    raise SystemExit(2)

from bench import events
from bench.errors import SmallShareError, SpecError
from bench.kvstores import is_distributed
from bench.training.options import MOST_BATCH, Options, empty, parse
from im2rec_tools.terminal import echo, echo_error, install_filter

TRY_SECONDS = 600.0
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_CGROUP = Path("/sys/fs/cgroup")
# Of what is free, for other programs take memory too, and saving takes 4 % more.
_USED = 0.85
# Runs of one batch were seen to differ by so much in what images take, by whether a batch is freed
# before the next one is there. A process's limit is its own, and needs no other reserve.
_DIFFER = 0.1
# Batches that are tried up to three times instead.
_FEW = 2
_CRASHES = (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS)
_INFINITE = resource.RLIM_INFINITY
_POLL_SECONDS = 0.02
# MXNet can wait for ever for a thread that could not start.
STUCK_SECONDS = 30.0
# Said last, these count; nothing is written.
_SHORT = (
    *("--warmup-windows=1", "--precision=0", "--data-val=", "--monitor=0"),
    *("--load-epoch=0", "--profile-worker-suffix=", "--profile-server-suffix="),
)
# As many as memory was seen to grow in.
_STEPS = 6
# What a worker fails with if its batch needs more memory, or more images, than there are.
_TOO_LARGE = frozenset({MemoryError.__name__, SmallShareError.__name__})
_BATCHES = frozenset({"--batch-size", "--global-batch", "--auto-batch"})
# How MXNet and the libraries below it say that memory is out.
_MESSAGES = (
    "failed to allocate",  # MXNet, of a processor's
    "out of memory",  # CUDA, of a GPU's
    "bad_alloc",
    "unable to allocate",  # NumPy
    "cannot allocate memory",  # the kernel, by any library
    "memory allocation failed",
    "memoryallocation",
    "memoryerror",  # a traceback's last line
    "could not create a primitive",  # oneDNN, whose scratch memory it does not get
    "could not create a memory",
    "failed to map segment",  # the loader, of a library
    "too many memory regions",  # OpenBLAS
    "status_alloc_failed",  # cuBLAS, cuDNN
    "can't start new thread",  # Python: there is no room for a stack
    "thread creation failed",  # libgomp
    "pthread_create failed",  # OpenBLAS
)
# What a C++ program prints that ends because it gets no thread.
_NO_THREAD = ("std::system_error", "resource temporarily unavailable")


@dataclass(frozen=True, kw_only=True)
class BatchProbe:
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


def find(tried: BatchProbe, most: int = MOST_BATCH) -> int:
    """The largest batch a device, up to `most`, that fits; SpecError if there is none."""
    tries = _Tries(tried)
    if not tries.fits(1):
        raise SpecError(
            f"{tried.name}not even a batch of 1 a device fits; try MXNET_BACKWARD_DO_MIRROR=1"
        )
    return tries.confirmed(largest(tries.fits, most, good=1))


def narrowed(tried: BatchProbe, batch: int) -> int:
    """As `find`, if no more than this batch is wanted, which probably fits."""
    tries = _Tries(tried)
    if tried.servers:
        tries.fits(1)
    return batch if tries.fits(batch) else find(tried, batch - 1)


class _Tries:
    """Tries of one worker, and the most bytes that each batch took."""

    def __init__(self, tried: BatchProbe) -> None:
        self.tried = tried
        self.taken: dict[int, int] = {}

    def fits(self, batch: int) -> bool:
        """Whether a batch fits; of 1 and 2, at a limit where runs differ, whether it mostly does.

        A larger one leaves room for what its next run may take more. These cannot: they are so
        far apart that the room would cost half of the batch.
        """
        fits = self._fits(batch)
        if batch > _FEW or not _is_limited() or self._fits(batch) == fits:
            return fits
        return self._fits(batch)

    def _fits(self, batch: int) -> bool:
        server = self.taken.get(1, 0) if self.tried.servers else 0
        fit, taken = _try(self.tried, batch, server, self._headroom(batch))
        if fit:
            self.taken[batch] = taken
        return fit

    def confirmed(self, batch: int) -> int:
        """The batch, or one less if it fits no second time; runs differ at a process's own limit.

        Batches of 1 and 2 stay: they have been confirmed.
        """
        limited = _is_limited()
        while limited and batch > _FEW and not self.fits(batch):
            batch -= 1
        return batch

    def _headroom(self, batch: int) -> int:
        """Bytes by which runs of this batch differ: a share of what its images take."""
        if batch <= _FEW or len(self.taken) < 2:
            return 0
        (least, base), (last, most) = min(self.taken.items()), max(self.taken.items())
        return max(0, int(_DIFFER * batch * (most - base) / (last - least)))


def _is_limited() -> bool:
    """Whether this process has a limit of its own, at which runs of one batch differ."""
    kinds = (resource.RLIMIT_DATA, resource.RLIMIT_AS)
    return any(resource.getrlimit(kind)[0] != _INFINITE for kind in kinds)


def free_bytes() -> int:
    """Memory that a process here may still take, by the kernel and this process's cgroup."""
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    kib = next(line.split()[1] for line in lines if line.startswith("MemAvailable"))
    limit, used = (_number(_CGROUP / f"memory.{name}") for name in ("max", "current"))
    return min(int(kib) * 1024, sys.maxsize if limit is None else max(0, limit - (used or 0)))


def _number(path: Path) -> int | None:
    text = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    return int(text) if text.isdigit() else None


def _limits(share: int | None, headroom: int) -> dict[int, int]:
    """The limits of a try: this process's own less the headroom, and its share of memory."""
    found = {}
    for kind in (resource.RLIMIT_DATA, resource.RLIMIT_AS):
        soft, hard = resource.getrlimit(kind)
        amount = share if share is not None and kind == resource.RLIMIT_DATA else _INFINITE
        own = max(0, soft - headroom) if soft != _INFINITE else soft
        known = [one for one in (own, hard, amount) if one != _INFINITE]
        if known:
            found[kind] = min(known)
    return found


def _begin(limits: dict[int, int]) -> None:
    """Lets the kernel end this process with the one that tries, and hold it to its memory."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))


def _errors(stream: Iterable[str]) -> Iterator[str]:
    """The names of the exceptions that a worker reported."""
    from bench.event_decoder import decoded  # noqa: PLC0415 - the Python of a worker may lack msgspec

    for line in stream:
        with suppress(ValueError):
            event = decoded(line)
            if event is not None:
                yield event.values.get("error", "")


def _try(tried: BatchProbe, batch: int, server: int, headroom: int) -> tuple[bool, int]:
    """Whether the batch fits, and the bytes it took, if a server takes so many."""
    share = (int(free_bytes() * _USED) - tried.servers * server) // tried.workers
    if share <= 0 and not tried.gpu:
        echo(f"{tried.name}{batch} a device does not fit", err=True)
        return False, 0
    limits = _limits(None if tried.gpu else share, headroom)
    killed = oom_kills()
    with TemporaryFile("w+") as said, TemporaryFile("w+") as stream, TemporaryDirectory() as saved:
        words = [*length_options(tried), *saving_options(tried, saved), *_SHORT]
        child = subprocess.Popen(
            [*tried.command, *words, f"--batch-size={batch * tried.devices}"],
            env=os.environ | tried.env | {events.STREAM_VARIABLE: str(stream.fileno())},
            pass_fds=(stream.fileno(),),
            stdout=subprocess.DEVNULL,
            stderr=said,
            preexec_fn=partial(_begin, limits),  # noqa: PLW1509 - a few calls, no thread of ours
        )
        end = _ended(child, limits)
        said.seek(0)
        errors = said.read().strip()
        stream.seek(0)
        failed = set(_errors(stream))
    full = end.code != 0 and (
        bool(failed & _TOO_LARGE)
        or is_out_of_memory_text(errors)
        or (end.code == -signal.SIGKILL and (killed is None or oom_kills() != killed))
        # Libraries that do not check what they get crash, or abort without a word.
        or ((end.code in _CRASHES or end.stuck) and end.near)
    )
    if end.code and not full:
        raise SpecError(
            f"{tried.name}a batch of {batch} a device fails for another reason: "
            f"{_reason(end, errors)}"
        )
    echo(f"{tried.name}{batch} a device {'does not fit' if full else 'fits'}", err=True)
    return not full, end.taken


def length_options(tried: BatchProbe) -> tuple[str, ...]:
    """How long a try trains: steps wait for each other at a window's edge, and free memory."""
    taker = empty("auto_batch", "")
    taker.add_argument("--steps-per-window", type=int, default=0)
    asked = taker.parse_known_args(tried.command)[0].steps_per_window or (10 if tried.gpu else 1)
    steps = min(asked, _STEPS // 2)
    return f"--steps-per-window={steps}", f"--windows={_STEPS // steps - 1}"


def saving_options(tried: BatchProbe, folder: str) -> tuple[str]:
    """Where a try saves its weights, which takes memory: nowhere, unless training saves them."""
    taker = empty("auto_batch", "")
    taker.add_argument("--model-prefix", default="")
    prefix = taker.parse_known_args(tried.command)[0].model_prefix
    return (f"--model-prefix={folder}/try" if prefix else "--model-prefix=",)


def _reason(end: "_End", errors: str) -> str:
    if end.stuck:
        return f"it computed nothing for {STUCK_SECONDS:.0f} s"
    if end.code == -signal.SIGKILL:
        return "it was killed (SIGKILL), and not by the kernel for memory"
    ended = signal.Signals(-end.code).name if end.code < 0 else f"exit code {end.code}"
    return errors.splitlines()[-1].strip() if errors else f"{ended}, without a word"


@dataclass(frozen=True, kw_only=True)
class _End:
    """How a try ended.

    taken  most bytes it had
    near   it had reserved more than half of what its limits allow
    stuck  it was ended, since it computed nothing for a long time
    """

    code: int
    taken: int
    near: bool
    stuck: bool


def _ended(child: "subprocess.Popen[bytes]", limits: dict[int, int]) -> _End:
    """Waits for a try; SpecError if it takes too long."""
    begun = moved = time.monotonic()
    near, stuck, spent = False, False, -1
    try:
        while True:
            pid, status, usage = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            near |= _is_near(child.pid, limits)
            now, before, spent = time.monotonic(), spent, _ticks(child.pid)
            moved = now if spent != before else moved
            stuck |= near and now - moved > STUCK_SECONDS
            if stuck or now - begun > TRY_SECONDS:
                child.kill()
            time.sleep(_POLL_SECONDS)
        child.returncode = os.waitstatus_to_exitcode(status)
    finally:
        if child.returncode is None:  # an interrupt
            child.kill()
            child.wait()
    if time.monotonic() - begun > TRY_SECONDS and child.returncode and not stuck:
        raise SpecError(
            f"a try took more than {TRY_SECONDS:.0f} s; say how much is enough: --auto-batch=MOST"
        )
    return _End(code=child.returncode, taken=usage.ru_maxrss * 1024, near=near, stuck=stuck)


def _is_near(pid: int, limits: dict[int, int]) -> bool:
    """Whether a process has reserved more than half of what a limit allows."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    sizes = dict(line.split(":", 1) for line in lines if line.startswith(("VmPeak", "VmData")))
    reserved = {resource.RLIMIT_AS: "VmPeak", resource.RLIMIT_DATA: "VmData"}
    return any(
        int(sizes[reserved[kind]].split()[0]) * 1024 > most / 2
        for kind, most in limits.items()
        if reserved[kind] in sizes
    )


def _ticks(pid: int) -> int:
    """Clock ticks that a process has computed; 0 if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0
    user, system = text.rpartition(")")[2].split()[11:13]
    return int(user) + int(system)


def _without_batch(argv: Sequence[str]) -> list[str]:
    taker = empty("auto_batch", "")
    for name in _BATCHES:
        taker.add_argument(name, nargs="?")
    return taker.parse_known_args(argv)[1]


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that there was no memory left, of the machine or of a GPU."""
    return isinstance(error, MemoryError) or is_out_of_memory_text(str(error))


def is_out_of_memory_text(text: str) -> bool:
    """Whether a program's last words say that it got no memory, or no room for a thread."""
    said = text.lower()
    return any(words in said for words in _MESSAGES) or all(words in said for words in _NO_THREAD)


def oom_kills(proc: Path = Path("/proc/vmstat"), cgroup: Path = _CGROUP) -> int | None:
    """Processes that the kernel killed for memory so far; None if it does not count them."""
    found = []
    for path in (proc, cgroup / "memory.events"):
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError:
            continue
        found += [int(line.split()[1]) for line in lines if line.startswith("oom_kill ")]
    return sum(found) if found else None


def advice(batch: int, devices: int) -> str:
    """One line: what did not fit and the three ways out."""
    return (
        f"out of memory: a batch of {batch} on {devices} device(s) does not fit; take a smaller "
        f"batch ('python -m bench.auto_batch' finds the largest that fits), set "
        f"MXNET_BACKWARD_DO_MIRROR=1, which computes some of it twice, or use fewer devices"
    )


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
    tried = BatchProbe(
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
    echo(f"{device} images a device: --batch-size {worker}", err=True)
    return [*_without_batch(argv), f"--batch-size={worker}"]


def main() -> None:
    """Prints the largest batch a device; exits 2 where none fits or the options are wrong."""
    taker = empty(
        "auto_batch",
        "Find the largest batch per device. Takes the options of bench.train_imagenet too.",
    )
    text = "Number of workers that share the machine's memory"
    taker.add_argument("--workers", type=int, default=1, metavar="N", help=text)
    install_filter()
    try:
        typed, argv = taker.parse_known_args(sys.argv[1:])
        data = () if any(word.startswith("--data-train") for word in argv) else ("--benchmark=1",)
        options = parse([*argv, *data, "--windows=1"])
        device = found(options, argv, typed.workers)
    except SpecError as error:
        echo_error(error)
        sys.exit(2)
    except KeyboardInterrupt:
        echo("interrupted", err=True)
        sys.exit(130)
    echo(f"{device} images a device: --batch-size {device * options.devices}")


if __name__ == "__main__":
    main()
