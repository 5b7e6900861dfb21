"""How long a point takes to be known to 2 %, start-up included: `python -m benchmarks.point`.

Held against upstream's way to a number: a process that trains 31 batches by Module, of which it
looks at the last ten. In turn, medians; docs/speed.md has figures.
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
from results.store import read

_BATCHES = 31
_SWEEP = """
repeats = 1
[[points]]
network = "{network}"
batch_per_device = {batch}
"""


def ours(network: str, batch: int) -> tuple[float, int]:
    """Seconds that a sweep of this one point takes, and how many windows it measured."""
    with tempfile.TemporaryDirectory() as folder:
        sweep = Path(folder) / "point.toml"
        sweep.write_text(_SWEEP.format(network=network, batch=batch), encoding="utf-8")
        fab = Path(sys.executable).parent / "fab"
        command = [str(fab), "bench.sweep", str(sweep), "--run", f"{folder}/run"]
        began = time.perf_counter()
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        seconds = time.perf_counter() - began
        (record,) = read(Path(folder) / "run")
        if record.ranks[0].facts["ended"] != "precision":
            raise SystemExit(f"not known to 2 %: {record.message}")
        return seconds, len(record.ranks[0].seconds)


def upstreams(network: str, batch: int) -> float:
    """Seconds that a process takes which trains 31 batches by Module."""
    began = time.perf_counter()
    words = ["--network", network, "--batch", str(batch), "--dtype", "float32"]
    process = Turns("module", words, threads=1)
    process.take(_BATCHES)
    process.close()
    return time.perf_counter() - began


def main() -> None:
    """Parses the command line, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", default="resnet-50")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    found = [
        (*ours(given.network, given.batch), upstreams(given.network, given.batch))
        for _ in range(given.repeats)
    ]
    mine, windows, theirs = (statistics.median(one) for one in zip(*found, strict=True))
    print(
        f"{given.network} b{given.batch} on one of {len(os.sched_getaffinity(0))} cores: known to "
        f"2 % after {mine:.1f} s ({windows:.0f} windows, warm-up among them); {_BATCHES} batches "
        f"by Module {theirs:.1f} s: {theirs / mine:.2f} times as long; n = {given.repeats}, medians"
    )


if __name__ == "__main__":
    main()
