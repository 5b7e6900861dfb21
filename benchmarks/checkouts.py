"""Compare the throughput of two checkouts, such as before and after a change.

One worker of each trains at the same time, each on one core. They exchange cores every second, so
other programs slow down both alike. The ratio is that of the images in blocks of equal time.

    git worktree add ../before COMMIT
    python -m benchmarks.checkouts ../before . --network resnet-50 --batch-size 2

Both use the Python environment of this one. Results: docs/explanation/benchmarks.md.
"""

import argparse
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from bench.engines.event_decoder import decoded
from bench.events import STREAM_VARIABLE
from bench.statistics.confidence import error_of_mean

_SWAP_SECONDS = 1.0
# Windows that a worker does not count: the first builds the graph.
_WARM_UP = 3
_LEAST_BLOCKS = 3
# Start and images of a window, in seconds since the epoch.
Window = tuple[float, float, int]


def start(checkout: Path, words: Sequence[str], events: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a worker of a checkout, which writes its events to a file."""
    return subprocess.Popen(
        [sys.executable, "-m", "bench.train_imagenet", *words],
        cwd=checkout,
        env={**os.environ, "OMP_NUM_THREADS": "1", STREAM_VARIABLE: str(events.fileno())},
        pass_fds=[events.fileno()],
        stdout=subprocess.DEVNULL,
    )


def pin(process: int, core: int) -> None:
    """Let all threads of a process run on one core only."""
    for task in Path(f"/proc/{process}/task").iterdir():
        try:
            os.sched_setaffinity(int(task.name), {core})
        except ProcessLookupError:  # the thread ended
            continue


def take_turns(workers: Sequence[subprocess.Popen[bytes]], seconds: float) -> None:
    """Exchange the cores of two workers every second. SystemExit if one ends."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        cores.reverse()
        for worker, core in zip(workers, cores, strict=True):
            if worker.poll() is not None:
                raise SystemExit(f"{worker.args!r} ended with {worker.returncode}; see its error")
            pin(worker.pid, core)
        time.sleep(_SWAP_SECONDS)


def windows(events: Path) -> list[Window]:
    """Return (start, end, images) of the windows in a file of events, without warm-up."""
    found = [decoded(line) for line in events.read_text(encoding="utf-8").splitlines()]
    values = [one.values for one in found if one and one.kind == "window"]
    return [(one["end"] - one["seconds"], one["end"], one["images"]) for one in values[_WARM_UP:]]


def measured(checkouts: Sequence[Path], words: Sequence[str], seconds: float) -> list[list[Window]]:
    """Return the windows of each of two checkouts, from this many seconds."""
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / str(number) for number in range(len(checkouts))]
        workers = []
        try:
            for checkout, file in zip(checkouts, files, strict=True):
                with file.open("wb") as events:
                    workers.append(start(checkout, words, events))
            take_turns(workers, seconds)
        finally:
            for worker in workers:
                worker.send_signal(signal.SIGKILL)
                worker.wait()
        return [windows(file) for file in files]


def throughput(found: Sequence[Window], begin: float, end: float) -> float:
    """Return the images per second of the windows that lie between two times."""
    inside = [one for one in found if begin <= one[0] and one[1] <= end]
    if not inside:
        raise SystemExit(f"no window in {end - begin:.0f} s; choose a longer --block")
    return sum(one[2] for one in inside) / sum(one[1] - one[0] for one in inside)


def log_ratios(found: Sequence[Sequence[Window]], block: float) -> list[float]:
    """Return log(second / first) of the throughput in each block of this many seconds."""
    if not all(found):
        raise SystemExit("a worker measured no window; choose more --seconds")
    begin = max(one[0][0] for one in found)
    end = min(one[-1][1] for one in found)
    logs = []
    while begin + block <= end:
        first, second = (throughput(one, begin, begin + block) for one in found)
        logs.append(math.log(second / first))
        begin += block
    if len(logs) < _LEAST_BLOCKS:
        raise SystemExit(f"{len(logs)} blocks; choose more --seconds, or a shorter --block")
    return logs


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.checkouts", description=__doc__)
    parser.add_argument("before", type=Path, help="Folder of one checkout")
    parser.add_argument("after", type=Path, help="Folder of the other checkout")
    for name, default, meaning in (
        ("--seconds", 300.0, "Duration, start of the workers included"),
        ("--block", 20.0, "Seconds per block; of each, one ratio is taken"),
    ):
        parser.add_argument(
            name, metavar="S", type=float, default=default, help=f"{meaning} [%(default)s]"
        )
    return parser


def main() -> None:
    """Parse the command line, measure and print the result."""
    given, words = _parser().parse_known_args()
    for checkout in (given.before, given.after):
        if not (checkout / "bench" / "train_imagenet.py").is_file():
            raise SystemExit(f"{checkout}: expected a checkout with bench/train_imagenet.py")
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit("two cores are needed, one per checkout")
    # Windows of one step end often; a worker would end after these, or when it is killed.
    fixed = "--benchmark 1 --kv-store local --windows 1000000 --disp-batches 1000000 --precision 0"
    options = [*fixed.split(), "--budget-seconds", str(given.seconds), *words]
    found = measured([given.before, given.after], options, given.seconds)
    logs = log_ratios(found, given.block)
    mean, error = sum(logs) / len(logs), error_of_mean(logs)
    assert error
    low, high = mean - error.half_width, mean + error.half_width
    print(
        f"{given.after} / {given.before}, {' '.join(words)}: throughput {math.exp(mean):.4f} "
        f"(95 % CI {math.exp(low):.4f} to {math.exp(high):.4f}), {len(logs)} blocks of "
        f"{given.block:g} s"
    )


if __name__ == "__main__":
    main()
