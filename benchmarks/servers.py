"""The cost of servers on one machine, by set-up: `python -m benchmarks.servers`.

Two workers on two cores through dist_sync, set up in several ways, against one process on one core;
repeats of all points alternate. docs/speed.md has figures.
"""

import argparse
from typing import Any

from bench.trial import make
from benchmarks.compression import records
from results.rates import rate

NETWORKS: dict[str, dict[str, Any]] = {
    "alexnet": {"network": "alexnet", "batch_per_device": 8},
    "resnet-50": {"network": "resnet", "num_layers": 50, "batch_per_device": 2},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "TCP": {"env": ["DMLC_LOCAL=0"]},
    "files in /tmp (DMLC_LOCAL=1)": {"env": ["DMLC_LOCAL=1"]},
    "TCP, two threads a process": {"env": ["DMLC_LOCAL=0", "OMP_NUM_THREADS=2"]},
    "TCP, one server for both": {"env": ["DMLC_LOCAL=0"], "servers_per_host": 1},
}


def main() -> None:
    """Parses the command line, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--windows", type=int, default=6)
    given = parser.parse_args()
    print("| network | setting | images/s | of twice one process |\n|---|---|---|---|")
    for name in given.networks:
        base = NETWORKS[name] | {"windows": given.windows}
        two = base | {"kvstore": "dist_sync", "devices": 2}
        trials = (make(base), *(make(two | setting) for setting in SETTINGS.values()))
        found = records(*trials, repeats=given.repeats)
        alone = 0.0
        for title, trial in zip(("one process", *SETTINGS), trials, strict=True):
            images = rate([one for one in found if one.trial == trial]).images_per_second
            alone = alone or images
            share = images / alone / trial.layout.devices
            print(f"| {name} | {title} | {images:.2f} | {share:.2f} |", flush=True)


if __name__ == "__main__":
    main()
