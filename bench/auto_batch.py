"""Finds the largest batch a device that fits into memory: doubles it, then bisects.

    python -m bench.auto_batch --network resnet-50 --gpus 0,1

Each try is a process of its own that trains two steps, since MXNet does not recover. On CPU it
may take what memory is free, or what its limits (RLIMIT, cgroup) leave.
"""

import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bench.errors import SpecError
from bench.kvstores import is_distributed
from bench.memory import START
from bench.options import Options, parse

_SECONDS = 600.0
_MOST = 1 << 16
_CGROUP = Path("/sys/fs/cgroup/memory.max")


def largest(fits: Callable[[int], bool], most: int = _MOST) -> int:
    """The largest number up to `most` that fits, where all below one that fits do; 0: none."""
    good, bad = 0, 1
    while bad <= most and fits(bad):
        good, bad = bad, bad * 2
    bad = min(bad, most + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good


def free_bytes() -> int:
    """Memory that a process here may still take, by the kernel and this process's cgroup."""
    lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    kib = next(line.split()[1] for line in lines if line.startswith("MemAvailable"))
    limit = _CGROUP.read_text(encoding="utf-8").strip() if _CGROUP.is_file() else "max"
    return min(int(kib) * 1024, int(limit) if limit.isdigit() else sys.maxsize)


def _limit(amount: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    known = [one for one in (soft, hard, amount) if one != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(known), hard))


def _fits(words: Sequence[str], options: Options, batch: int) -> bool:
    command = [sys.executable, "-m", "bench.train_imagenet", *words]
    command += ["--benchmark=1", "--windows=1", f"--batch-size={batch * options.devices}"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
        preexec_fn=None if options.gpus else partial(_limit, free_bytes()),
    )
    # The kernel kills what takes the last of a machine's memory; some libraries abort.
    full = START in done.stderr or "bad_alloc" in done.stderr or done.returncode == -9
    if done.returncode and not full:
        last = (done.stderr.strip() or "it said nothing").splitlines()[-1]
        raise SpecError(f"a batch of {batch} a device fails for another reason: {last}")
    said = "does not fit" if full else "fits"
    print(f"{batch} a device {said}", file=sys.stderr, flush=True)
    return not full


def _found(words: Sequence[str]) -> tuple[int, int]:
    """The largest batch of a device and of the worker; SpecError where there is none."""
    options = parse([*words, "--benchmark=1", "--windows=1"])
    if is_distributed(options.kv_store):
        raise SpecError(
            f"--kv-store {options.kv_store}: a batch has to fit each worker by itself; give "
            f"device or local"
        )
    found = largest(partial(_fits, words, options))
    if not found:
        raise SpecError("not even a batch of 1 a device fits; try MXNET_BACKWARD_DO_MIRROR=1")
    return found, found * options.devices


def main() -> None:
    """Prints the largest batch a device; exits 2 where none fits or the options are wrong."""
    try:
        device, worker = _found(sys.argv[1:])
    except subprocess.TimeoutExpired:
        print(f"error: a try took more than {_SECONDS:.0f} s", file=sys.stderr)
        sys.exit(2)
    except SpecError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    print(f"{device} images a device: --batch-size {worker}")


if __name__ == "__main__":
    main()
