"""What the master and its agent take of the machine while they watch a job.

    python -m benchmarks.overhead

Runs a sweep of one point on a terminal of its own, live table and all, and sets the CPU time of the
master and of the agent over the measured time. docs/speed.md has figures.
"""

import argparse
import os
import pty
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

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
_TICKS = os.sysconf("SC_CLK_TCK")
Sample = tuple[float, float, float]


def cpu_seconds(pid: int) -> float:
    """What a process has used of the processors, in user and system mode."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def agent_of(master: int) -> int | None:
    """The child of the master that is its agent."""
    children = Path(f"/proc/{master}/task/{master}/children").read_text(encoding="ascii").split()
    for task in Path(f"/proc/{master}/task").iterdir():
        children += (task / "children").read_text(encoding="ascii").split()
    for child in map(int, children):
        if b"exec(__import__(" in Path(f"/proc/{child}/cmdline").read_bytes():
            return child
    return None


def sampled(command: list[str], every: float) -> list[Sample]:
    """(time, master's, agent's CPU seconds) of the command, run on a terminal, while both live."""
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
    """CPU seconds a second of the master (1) or the agent (2) from `begin` to `end`."""
    inside = [one for one in samples if begin <= one[0] <= end]
    return (inside[-1][column] - inside[0][column]) / (inside[-1][0] - inside[0][0])


def measured(sweep: str, folder: Path) -> tuple[float, float]:
    """Shares of one core that the master and the agent used while the windows were measured."""
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


def main() -> None:
    """Parses the command line, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", default="alexnet")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--kvstore", default="dist_sync")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--windows", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    given = vars(parser.parse_args())
    repeats = given.pop("repeats")
    shares = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            shares.append(measured(_SWEEP.format(**given), Path(folder)))
    master, agent = (statistics.median(one) for one in zip(*shares, strict=True))
    cores = len(os.sched_getaffinity(0))
    print(
        f"master {master:.2%} and agent {agent:.2%} of a core: {(master + agent) / cores:.2%} of "
        f"the machine's {cores}; medians of {repeats} runs of {given['windows']} windows"
    )


if __name__ == "__main__":
    main()
