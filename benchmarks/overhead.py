"""Measure the CPU time of controller and agent, or of a worker's own counters.

Runs a sweep of one point on a pseudo-terminal with the live table, and divides the CPU time of the
controller and of the agent by the measured time. With --calls and the options of a worker, it is a
worker that prints the time of reading the run delay of its threads, as a share of its windows:

    python -m launch.launch --launcher local -n 2 -s 2 python -m benchmarks.overhead --calls \\
        --network resnet-18 --kv-store dist_sync --batch-size 16 --benchmark 1 --windows 20

Results: docs/explanation/benchmarks.md and interference.md.
"""

import argparse
import os
import pty
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import train_imagenet
from bench.statistics.stopwatch import Stopwatch, WindowDelays
from launch.hosts import ROOT
from results.store import read_records

_SWEEP = """
repeats = 1
precision = 0.0
[[points]]
network = "{network}"
batch_per_device = {batch}
kvstore = "{kvstore}"
devices = {devices}
windows = {windows}
"""
_EMPTY_CALLS = 1000
_TICKS = os.sysconf("SC_CLK_TCK")
Sample = tuple[float, float, float]


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process, user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def agent_of(controller: int) -> int | None:
    """Return the process id of the controller's agent, or None."""
    children = (
        Path(f"/proc/{controller}/task/{controller}/children").read_text(encoding="ascii").split()
    )
    for task in Path(f"/proc/{controller}/task").iterdir():
        children += (task / "children").read_text(encoding="ascii").split()
    for child in map(int, children):
        if b"exec(__import__(" in Path(f"/proc/{child}/cmdline").read_bytes():
            return child
    return None


def sampled(command: list[str], every: float) -> list[Sample]:
    """Run a command on a pseudo-terminal and sample its CPU time.

    Each sample is (time, CPU seconds of the controller, CPU seconds of the agent).
    """
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execv(command[0], command)
    threading.Thread(target=_drain, args=(terminal,), daemon=True).start()
    samples: list[Sample] = []
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        time.sleep(every)
        try:
            agent = agent_of(pid)
            if agent is not None:
                samples.append((time.time(), cpu_seconds(pid), cpu_seconds(agent)))
        except OSError:  # it ends
            continue
    return samples


def _drain(terminal: int) -> None:
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:  # the command has ended
        return


def share(samples: list[Sample], begin: float, end: float, column: int) -> float:
    """Return the CPU share of the controller (1) or the agent (2) in this time."""
    inside = [one for one in samples if begin <= one[0] <= end]
    return (inside[-1][column] - inside[0][column]) / (inside[-1][0] - inside[0][0])


def measured(sweep: str, folder: Path) -> tuple[float, float]:
    """Return the shares of a core of controller and agent during the measurement."""
    (folder / "point.toml").write_text(sweep, encoding="utf-8")
    fab = str(Path(sys.executable).parent / "fab")
    run = folder / "run"
    samples = sampled([fab, "bench.sweep", str(folder / "point.toml"), "--run", str(run)], 0.25)
    (record,) = read_records(run)
    if record.status != "ok":
        raise SystemExit(record.message)
    begin = max(rank.ends[0] for rank in record.ranks)
    end = min(rank.ends[-1] for rank in record.ranks)
    return share(samples, begin, end, 1), share(samples, begin, end, 2)


@dataclass
class CallTimes:
    """Seconds of the counted calls in a worker, and of its windows."""

    calls: int = 0
    wall: float = 0.0
    cpu: float = 0.0
    windows: int = 0
    window_wall: float = 0.0

    def counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that calls this one and adds its time."""

        def timed(*args: Any) -> Any:
            cpu, wall = time.thread_time(), time.perf_counter()
            try:
                return call(*args)
            finally:
                self.wall += time.perf_counter() - wall
                self.cpu += time.thread_time() - cpu
                self.calls += 1

        return timed

    def of_windows(self, window: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        """Return a function that adds the time of the window that this one returns."""

        def added(*args: Any) -> dict[str, Any]:
            found = window(*args)
            self.windows += 1
            self.window_wall += found["seconds"]
            return found

        return added


def run_worker(options: Sequence[str]) -> None:
    """Run a worker with these options; print what its counters cost.

    The time of counting an empty call is not theirs.
    """
    found, empty = CallTimes(), CallTimes()
    nothing = empty.counted(lambda: None)
    for _ in range(_EMPTY_CALLS):
        nothing()
    for name in ("start", "end"):
        setattr(WindowDelays, name, found.counted(getattr(WindowDelays, name)))
    setattr(Stopwatch, "window", found.of_windows(Stopwatch.window))  # noqa: B010 - a method
    sys.argv = ["bench.train_imagenet", *options]
    train_imagenet.main()
    threads = len(list(Path("/proc/self/task").iterdir()))
    wall = found.wall - found.calls * empty.wall / empty.calls
    cpu = found.cpu - found.calls * empty.cpu / empty.calls
    print(
        f"{found.calls} calls in {found.windows} windows of "
        f"{1e3 * found.window_wall / found.windows:.1f} ms, {threads} threads: "
        f"{wall / found.window_wall:.3%} of their seconds by the clock, "
        f"{cpu / found.window_wall:.3%} by CPU time"
    )


def main() -> None:
    """Parse the command line, measure and print the result."""
    if sys.argv[1:2] == ["--calls"]:
        run_worker(sys.argv[2:])
        return
    parser = argparse.ArgumentParser("python -m benchmarks.overhead", description=__doc__)
    for name, text, default in (
        ("network", "Network", "alexnet"),
        ("kvstore", "Gradient exchange", "dist_sync"),
    ):
        parser.add_argument(
            f"--{name}", metavar="NAME", default=default, help=f"{text} [%(default)s]"
        )
    for name, text, number in (
        ("batch", "Batch per device, in images", 8),
        ("devices", "CPU devices", 2),
        ("windows", "Windows of the job", 20),
        ("repeats", "Runs; medians are printed", 3),
    ):
        parser.add_argument(
            f"--{name}", metavar="N", type=int, default=number, help=f"{text} [%(default)s]"
        )
    given = vars(parser.parse_args())
    repeats = given.pop("repeats")
    shares = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            shares.append(measured(_SWEEP.format(**given), Path(folder)))
    controller, agent = (statistics.median(one) for one in zip(*shares, strict=True))
    cores = len(os.sched_getaffinity(0))
    print(
        f"controller {controller:.2%} and agent {agent:.2%} of a core, together "
        f"{(controller + agent) / cores:.2%} of the machine's {cores} cores; medians of {repeats} "
        f"runs of {given['windows']} windows"
    )


if __name__ == "__main__":
    main()
