"""Measure the time until the 95 % CI of a point is ±2 %.

Compared with upstream's method: a process that trains 31 batches with Module and times the last
ten. Both alternate; medians are printed. Results: docs/explanation/benchmarks.md.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.train import Turns
from launch.hosts import ROOT
from results.store import read_records

_BATCHES = 31
# Exit code of a sweep whose point did not reach the precision within its budget.
_UNSTABLE = 6
_SWEEP = """
repeats = 1
[[points]]
network = "{network}"
batch_per_device = {batch}
"""


def ours(network: str, batch: int) -> tuple[float, int, bool]:
    """Return seconds of a sweep of one point, its windows, whether ±2 % was reached."""
    with tempfile.TemporaryDirectory() as folder:
        sweep = Path(folder) / "point.toml"
        sweep.write_text(_SWEEP.format(network=network, batch=batch), encoding="utf-8")
        fab = Path(sys.executable).parent / "fab"
        command = [str(fab), "bench.sweep", str(sweep), "--run", f"{folder}/run"]
        began = time.perf_counter()
        done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
        seconds = time.perf_counter() - began
        if done.returncode not in (0, _UNSTABLE):
            raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
        (record,) = read_records(Path(folder) / "run")
        rank = record.ranks[0]
        return seconds, len(rank.seconds), rank.facts["ended"] == "precision"


def upstreams(network: str, batch: int) -> float:
    """Return the seconds of a process that trains 31 batches with Module."""
    began = time.perf_counter()
    words = ["--network", network, "--batch", str(batch), "--dtype", "float32"]
    process = Turns("module", words, threads=1)
    process.take(_BATCHES)
    process.close()
    return time.perf_counter() - began


def main() -> None:
    """Parse the command line, measure and print the result."""
    parser = argparse.ArgumentParser("python -m benchmarks.point", description=__doc__)
    parser.add_argument(
        "--network", metavar="NAME", default="resnet-50", help="Network [%(default)s]"
    )
    parser.add_argument(
        "--batch", metavar="N", type=int, default=4, help="Batch, in images [%(default)s]"
    )
    parser.add_argument(
        "--repeats",
        metavar="N",
        type=int,
        default=3,
        help="Runs of each side; medians are printed [%(default)s]",
    )
    given = parser.parse_args()
    found = [
        (*ours(given.network, given.batch), upstreams(given.network, given.batch))
        for _ in range(given.repeats)
    ]
    mine, windows, reached, theirs = zip(*found, strict=True)
    seconds, module = statistics.median(mine), statistics.median(theirs)
    print(
        f"{given.network} b{given.batch} on 1 of {len(os.sched_getaffinity(0))} cores: 95 % CI "
        f"±2 % after {seconds:.1f} s ({statistics.median(windows):.0f} windows with warm-up; "
        f"{reached.count(False)} of {len(reached)} runs did not reach it within the budget); "
        f"{_BATCHES} batches with Module: {module:.1f} s, {module / seconds:.2f} times as long; "
        f"n = {len(found)}, medians"
    )


if __name__ == "__main__":
    main()
