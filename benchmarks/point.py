"""Time until a point is known to 2 %: `python -m benchmarks.point`.

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
from results.store import read_records

_BATCHES = 31
# Exit code of a sweep whose point was not known to 2 % within its budget.
_UNSTABLE = 6
_SWEEP = """
repeats = 1
[[points]]
network = "{network}"
batch_per_device = {batch}
"""


def ours(network: str, batch: int) -> tuple[float, int, bool]:
    """Seconds that a sweep of this one point takes, its windows, and if it was known to 2 %."""
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
    mine, windows, known, theirs = zip(*found, strict=True)
    seconds, module = statistics.median(mine), statistics.median(theirs)
    print(
        f"{given.network} b{given.batch} on one of {len(os.sched_getaffinity(0))} cores: known to "
        f"2 % after {seconds:.1f} s ({statistics.median(windows):.0f} windows, warm-up among them; "
        f"{known.count(False)} of {len(known)} not within the budget); {_BATCHES} batches by "
        f"Module {module:.1f} s: {module / seconds:.2f} times as long; n = {len(found)}, medians"
    )


if __name__ == "__main__":
    main()
