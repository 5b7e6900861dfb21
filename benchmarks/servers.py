"""What servers cost on one machine, by how they are set up: `python -m benchmarks.servers`.

Two workers on two cores through dist_sync, set up in several ways, against one process on one core;
repeats of all points alternate. docs/speed.md has figures.
"""

import argparse
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.sweep import Sweep
from bench.trial import make
from launch.hosts import this_machine
from launch.sweep import Where, points, sweep
from results.rates import rate
from results.record import Record
from results.store import Store

NETWORKS: dict[str, dict[str, Any]] = {
    "alexnet": {"network": "alexnet", "batch_per_device": 8},
    "resnet-50": {"network": "resnet", "num_layers": 50, "batch_per_device": 2},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "TCP": {"env": ["DMLC_LOCAL=0"]},
    "files in /tmp (DMLC_LOCAL=1)": {"env": ["DMLC_LOCAL=1"]},
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
        what = Sweep(name="servers", description="", repeats=given.repeats, trials=trials, text="")
        where = Where(hosts=(this_machine(),))
        with tempfile.TemporaryDirectory() as folder, closing(Store(Path(folder))) as store:
            updates = sweep(what, points(what, where), where, store)
            records = [one for one in updates if isinstance(one, Record)]
        alone = 0.0
        for title, trial in zip(("one process", *SETTINGS), trials, strict=True):
            found = rate([one for one in records if one.trial == trial])
            alone = alone or found.images_per_second
            share = found.images_per_second / alone / trial.devices
            print(f"| {name} | {title} | {found.images_per_second:.2f} | {share:.2f} |", flush=True)


if __name__ == "__main__":
    main()
