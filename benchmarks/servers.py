"""Measure the cost of parameter servers on one machine, by placement.

Two dist_sync workers on two cores are compared with one process on one core. Repeats of all points
alternate. Results: docs/explanation/kvstores.md.
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
    "TCP, two threads per process": {"env": ["DMLC_LOCAL=0", "OMP_NUM_THREADS=2"]},
    "TCP, one server for both workers": {"env": ["DMLC_LOCAL=0"], "servers_per_host": 1},
}


def main() -> None:
    """Parse the command line, measure and print the result."""
    parser = argparse.ArgumentParser("python -m benchmarks.servers", description=__doc__)
    parser.add_argument(
        "--networks",
        metavar="NAME",
        nargs="+",
        choices=NETWORKS,
        default=list(NETWORKS),
        help=f"Networks: {', '.join(NETWORKS)} [all]",
    )
    parser.add_argument(
        "--repeats", metavar="N", type=int, default=3, help="Repeats of each point [%(default)s]"
    )
    parser.add_argument(
        "--windows", metavar="N", type=int, default=6, help="Windows per process [%(default)s]"
    )
    given = parser.parse_args()
    print("| network | setting | images/s | vs 2 x one process |\n|---|---|---|---|")
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
