"""Find the largest batch per device that fits into memory: double it, then bisect.

    python -m bench.auto_batch --network resnet-50 --gpus 0,1

Each try is a separate process that trains six steps, because MXNet does not recover from lack of
memory. On CPU a worker may use 85 % of its share of the free memory (by the kernel and its cgroup)
and its own limits (ulimit -v, -d) less a tenth of the images' memory.
"""

import argparse
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
    print(
        "error: bench/auto_batch.py: cannot run as a script. "
        "Run 'python -m bench.auto_batch ...' in the checkout",
        file=sys.stderr,
    )
    raise SystemExit(2)
if __name__ == "__main__":
    from bench.errors import check_python

    check_python("bench.auto_batch")

from bench import events
from bench.engines import ddp
from bench.engines.engine import find_comm
from bench.errors import SmallShareError, SpecError, error_line
from bench.kvstores import COMMS
from bench.networks import describe
from bench.settings.modes import IMAGENET_IMAGES
from bench.training.options import MOST_BATCH, Options, empty, parse
from im2rec_tools.terminal import echo, echo_error, install_filter

TRY_SECONDS = 600.0
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_CGROUP = Path("/sys/fs/cgroup")
# Share of the free memory: other programs need some, and saving takes 4 % more.
_USED = 0.85
# Runs with one batch differ by this share of the images' memory, depending on whether a batch is
# freed before the next one arrives. A process's own limit needs no other reserve.
_DIFFER = 0.1
# Batches up to this are tried up to three times instead.
_FEW = 2
_CRASHES = (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS)
_INFINITE = resource.RLIM_INFINITY
_POLL_SECONDS = 0.02
# MXNet can wait forever for a thread that could not start.
STUCK_SECONDS = 30.0
# Given last, these options win; a try writes nothing.
_SHORT = (
    *("--warmup-windows=1", "--precision=0", "--data-val=", "--monitor=0"),
    *("--load-epoch=0", "--profile-worker-suffix=", "--profile-server-suffix="),
)
# Memory grows during this many steps.
_STEPS = 6
# The errors of a worker whose batch needs more memory or images than available.
_TOO_LARGE = frozenset({MemoryError.__name__, SmallShareError.__name__})
_BATCHES = frozenset({"--batch-size", "--global-batch", "--auto-batch"})
# Out-of-memory messages of MXNet and its libraries.
_MESSAGES = (
    "failed to allocate",  # MXNet, CPU memory
    "out of memory",  # CUDA, GPU memory
    "bad_alloc",
    "unable to allocate",  # NumPy
    "cannot allocate memory",  # the kernel, through any library
    "memory allocation failed",
    "memoryallocation",
    "memoryerror",  # a traceback's last line
    "could not create a primitive",  # oneDNN, scratch memory
    "could not create a memory",
    "failed to map segment",  # the dynamic loader
    "too many memory regions",  # OpenBLAS
    "status_alloc_failed",  # cuBLAS, cuDNN
    "can't start new thread",  # Python: no memory for a stack
    "thread creation failed",  # libgomp
    "pthread_create failed",  # OpenBLAS
)
# The output of a C++ program that cannot start a thread.
_NO_THREAD = ("std::system_error", "resource temporarily unavailable")


@dataclass(frozen=True, kw_only=True)
class BatchProbe:
    """The worker to try, and the processes that share its memory.

    command   the whole command of the worker
    devices   devices of this worker
    gpu       whether the devices have their own memory
    workers   worker processes that share the machine's memory
    servers   server processes; each is assumed to need a worker's memory at batch 1
    env       variables of the command, in addition to this process's
    name      prefix of printed lines
    """

    command: tuple[str, ...]
    devices: int = 1
    gpu: bool = False
    workers: int = 1
    servers: int = 0
    env: dict[str, str] = field(default_factory=dict)
    name: str = ""


def largest(fits: Callable[[int], bool], most: int = MOST_BATCH, good: int = 0) -> int:
    """Return the largest number up to `most` that fits; 0 if none.

    All numbers below a fitting one must fit; `good` is known to fit.
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
    """Find the largest batch per device, up to `most`, that fits.

    Raises SpecError if none does.
    """
    tries = _Tries(tried)
    if not tries.fits(1):
        problem = "not even a batch of 1 per device fits"
        fix = "Set MXNET_BACKWARD_DO_MIRROR=1"
        raise SpecError(error_line(_place(tried), problem=problem, fix=fix))
    return tries.confirmed(largest(tries.fits, most, good=1))


def _place(tried: BatchProbe) -> str:
    return tried.name.removesuffix(": ") or "--auto-batch"


def narrowed(tried: BatchProbe, batch: int) -> int:
    """Like `find`, but at most `batch`, which is tried first because it probably fits."""
    tries = _Tries(tried)
    if tried.servers:
        tries.fits(1)
    return batch if tries.fits(batch) else find(tried, batch - 1)


class _Tries:
    """Tries of one worker, with the peak memory of each batch in bytes."""

    def __init__(self, tried: BatchProbe) -> None:
        self.tried = tried
        self.taken: dict[int, int] = {}

    def fits(self, batch: int) -> bool:
        """Return whether a batch fits.

        Larger batches keep headroom for variation between runs. For batches of 1 and 2 the headroom
        would cost half of the batch, so under a limit (ulimit) they must fit in most of three tries
        instead.
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
        """Confirm a batch by a second try, or decrease it until it fits.

        Only a limit of the process (ulimit) needs this, because runs vary near it. `fits` already
        confirms batches of 1 and 2.
        """
        limited = _is_limited()
        while limited and batch > _FEW and not self.fits(batch):
            batch -= 1
        return batch

    def _headroom(self, batch: int) -> int:
        """Return the bytes by which runs of a batch vary, a share of the images' memory."""
        if batch <= _FEW or len(self.taken) < 2:
            return 0
        (least, base), (last, most) = min(self.taken.items()), max(self.taken.items())
        return max(0, int(_DIFFER * batch * (most - base) / (last - least)))


def _is_limited() -> bool:
    """Return whether this process has a memory limit of its own (ulimit)."""
    kinds = (resource.RLIMIT_DATA, resource.RLIMIT_AS)
    return any(resource.getrlimit(kind)[0] != _INFINITE for kind in kinds)


def free_bytes() -> int:
    """Return the free memory in bytes, by the kernel and this process's cgroup."""
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    kib = next(line.split()[1] for line in lines if line.startswith("MemAvailable"))
    limit, used = (_number(_CGROUP / f"memory.{name}") for name in ("max", "current"))
    return min(int(kib) * 1024, sys.maxsize if limit is None else max(0, limit - (used or 0)))


def _number(path: Path) -> int | None:
    text = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
    return int(text) if text.isdigit() else None


def _limits(share: int | None, headroom: int) -> dict[int, int]:
    """Return a try's limits: this process's own less headroom, and the memory share."""
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
    """Bind this process's life to its parent's, and set its memory limits."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for kind, most in limits.items():
        resource.setrlimit(kind, (most, resource.getrlimit(kind)[1]))


def _errors(stream: Iterable[str]) -> Iterator[str]:
    """Yield the names of the exceptions that a worker reported."""
    from bench.engines.event_decoder import decoded  # noqa: PLC0415 - a worker's Python may lack it

    for line in stream:
        with suppress(ValueError):
            event = decoded(line)
            if event is not None:
                yield event.values.get("error", "")


def _try(tried: BatchProbe, batch: int, server: int, headroom: int) -> tuple[bool, int]:
    """Return whether the batch fits, and its peak bytes.

    `server`: memory of one server in bytes.
    """
    share = (int(free_bytes() * _USED) - tried.servers * server) // tried.workers
    if share <= 0 and not tried.gpu:
        echo(f"{tried.name}{batch} per device does not fit", err=True)
        return False, 0
    limits = _limits(None if tried.gpu else share, headroom)
    killed = oom_kills()
    with TemporaryFile("w+") as log, TemporaryFile("w+") as stream, TemporaryDirectory() as saved:
        words = [*length_options(tried), *mode_options(tried)]
        words += [*saving_options(tried, saved), *_SHORT]
        child = subprocess.Popen(
            [*tried.command, *words, f"--batch-size={batch * tried.devices}"],
            env=os.environ | tried.env | {events.STREAM_VARIABLE: str(stream.fileno())},
            pass_fds=(stream.fileno(),),
            stdout=subprocess.DEVNULL,
            stderr=log,
            preexec_fn=partial(_begin, limits),  # noqa: PLW1509 - a few calls, no threads
        )
        end = _ended(child, limits)
        log.seek(0)
        errors = log.read().strip()
        stream.seek(0)
        failed = set(_errors(stream))
    full = end.code != 0 and (
        bool(failed & _TOO_LARGE)
        or is_out_of_memory_text(errors)
        or (end.code == -signal.SIGKILL and (killed is None or oom_kills() != killed))
        # Libraries that do not check allocations crash or abort silently.
        or ((end.code in _CRASHES or end.stuck) and end.near)
    )
    if end.code and not full:
        problem = f"a batch of {batch} per device failed for another reason than memory"
        reason = f"{problem}: {_reason(end, errors)}"
        raise SpecError(error_line(_place(tried), problem=reason))
    echo(f"{tried.name}{batch} per device {'does not fit' if full else 'fits'}", err=True)
    return not full, end.taken


def length_options(tried: BatchProbe) -> tuple[str, ...]:
    """Return the length of a try; windows matter because their ends free memory."""
    taker = empty("auto_batch", "")
    taker.add_argument("--steps-per-window", type=int, default=0)
    asked = taker.parse_known_args(tried.command)[0].steps_per_window or (10 if tried.gpu else 1)
    steps = min(asked, _STEPS // 2)
    return f"--steps-per-window={steps}", f"--windows={_STEPS // steps - 1}"


def mode_options(tried: BatchProbe) -> tuple[str, ...]:
    """Return options that let a try accept those of its command."""
    taker = empty("auto_batch", "")
    taker.add_argument("--windows", type=int, default=0)
    taker.add_argument("--benchmark", type=int, default=0)
    typed = taker.parse_known_args(tried.command)[0]
    if not typed.benchmark:  # a try does not validate
        return "--top-k=0", "--loss=", "--val-freq=1", "--stop-accuracy=1"
    # The command may have options of epochs, which synthetic images with windows alone lack.
    return () if typed.windows else (f"--num-examples={IMAGENET_IMAGES}",)


def saving_options(tried: BatchProbe, folder: str) -> tuple[str]:
    """Return the option that saves a try's weights if training saves its weights.

    Saving takes memory, so a try must do it too.
    """
    taker = empty("auto_batch", "")
    taker.add_argument("--model-prefix", default="")
    prefix = taker.parse_known_args(tried.command)[0].model_prefix
    return (f"--model-prefix={folder}/try" if prefix else "--model-prefix=",)


def _reason(end: "_End", errors: str) -> str:
    if end.stuck:
        return f"no computation for {STUCK_SECONDS:.0f} s"
    if end.code == -signal.SIGKILL:
        return "killed by SIGKILL, but not by the kernel for lack of memory"
    ended = signal.Signals(-end.code).name if end.code < 0 else f"exit code {end.code}"
    return errors.splitlines()[-1].strip() if errors else f"{ended} without a message"


@dataclass(frozen=True, kw_only=True)
class _End:
    """The end of a try.

    taken  peak memory in bytes
    near   it reserved more than half of a limit
    stuck  it was killed because it computed nothing for a long time
    """

    code: int
    taken: int
    near: bool
    stuck: bool


def _ended(child: "subprocess.Popen[bytes]", limits: dict[int, int]) -> _End:
    """Wait for a try; SpecError if it takes too long."""
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
                os.kill(child.pid, signal.SIGKILL)  # child.kill() could take its exit status
            time.sleep(_POLL_SECONDS)
        child.returncode = os.waitstatus_to_exitcode(status)
    finally:
        if child.returncode is None:  # an interrupt
            child.kill()
            child.wait()
    if time.monotonic() - begun > TRY_SECONDS and child.returncode and not stuck:
        raise SpecError(
            error_line(
                "--auto-batch",
                problem=f"a try took more than {TRY_SECONDS:.0f} s",
                fix="Limit it by --auto-batch=MOST",
            )
        )
    return _End(code=child.returncode, taken=usage.ru_maxrss * 1024, near=near, stuck=stuck)


def _is_near(pid: int, limits: dict[int, int]) -> bool:
    """Return whether a process has reserved more than half of a limit."""
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
    """Return a process's CPU time in clock ticks; 0 if it ended."""
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
    """Return whether an error reports that the machine or a GPU ran out of memory."""
    return isinstance(error, MemoryError) or is_out_of_memory_text(str(error))


def is_out_of_memory_text(text: str) -> bool:
    """Return whether a program's output reports a lack of memory or threads."""
    lower = text.lower()
    return any(words in lower for words in _MESSAGES) or all(words in lower for words in _NO_THREAD)


def oom_kills(proc: Path = Path("/proc/vmstat"), cgroup: Path = _CGROUP) -> int | None:
    """Return the number of processes killed for lack of memory; None if not counted."""
    found = []
    for path in (proc, cgroup / "memory.events"):
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError:
            continue
        found += [int(line.split()[1]) for line in lines if line.startswith("oom_kill ")]
    return sum(found) if found else None


def advice(batch: int, devices: int, *, mirror: bool = True) -> str:
    """Return the out-of-memory message with fixes; `mirror` is one of MXNet's."""
    fixes = ["set MXNET_BACKWARD_DO_MIRROR=1, which recomputes some results"] if mirror else []
    return (
        f"out of memory: a batch of {batch} on {devices} device{'s' * (devices > 1)} does not "
        f"fit. Use a smaller batch ('python -m bench.auto_batch' finds the largest that fits), "
        f"{', '.join([*fixes, 'or use fewer devices'])}"
    )


def found(options: Options, argv: Sequence[str], workers: int = 1) -> int:
    """Find the largest batch per device for a worker with these options.

    Raises SpecError if none fits.
    """
    comms = ddp.COMMS if options.engine == "torch" else COMMS
    if find_comm(comms, options.kv_store).spans:
        alone = " or ".join(name for name in ("device", "local", "none") if name in comms)
        expected = f"{alone}, because a batch must fit each worker alone"
        fix = "Leave out --kv-store"
        raise SpecError(error_line("--kv-store", expected=expected, got=options.kv_store, fix=fix))
    if options.test_io or options.bandwidth:
        raise SpecError(
            error_line(
                "--test-io, --bandwidth",
                problem="without training, any batch fits",
                fix="Leave them out",
            )
        )
    if workers < 1:
        raise SpecError(error_line("--workers", expected="1 or more", got=workers))
    words = [*_without_batch(argv), *(() if options.data_train else ("--benchmark=1",))]
    if options.load_epoch:  # a try starts without the checkpoint, which may determine these
        words.append(f"--network={describe(options.network, options.num_layers)}")
        words.append(f"--image-shape={','.join(map(str, options.image_shape))}")
    tried = BatchProbe(
        command=(sys.executable, "-m", "bench.train_imagenet", *words),
        devices=options.devices,
        gpu=bool(options.gpus),
        workers=workers,
    )
    return find(tried, options.auto_batch or MOST_BATCH)


def sized(options: Options, argv: Sequence[str]) -> Sequence[str]:
    """Return the typed options with the largest batch in place of --auto-batch."""
    if not options.auto_batch:
        return argv
    device = found(options, argv)
    worker = device * options.devices
    echo(f"{device} images per device: --batch-size {worker}", err=True)
    return [*_without_batch(argv), f"--batch-size={worker}"]


def parser() -> argparse.ArgumentParser:
    """Return the parser of `python -m bench.auto_batch`'s own options."""
    made = empty(
        "auto_batch",
        "Find the largest batch per device. Also takes the options of bench.train_imagenet, such "
        "as --network NAME.",
    )
    text = "Number of workers that share the machine's memory"
    made.add_argument("--workers", type=int, default=1, metavar="N", help=text)
    return made


def main() -> None:
    """Print the largest batch per device.

    Exit 2 if none fits or the options are wrong.
    """
    install_filter()
    try:
        typed, argv = parser().parse_known_args(sys.argv[1:])
        data = () if any(word.startswith("--data-train") for word in argv) else ("--benchmark=1",)
        options = parse([*argv, *data])
        device = found(options, argv, typed.workers)
    except SpecError as error:
        echo_error(error)
        sys.exit(2)
    except KeyboardInterrupt:
        echo("interrupted", err=True)
        sys.exit(130)
    echo(f"{device} images per device: --batch-size {device * options.devices}")


if __name__ == "__main__":
    main()
