"""Measure savings and cost of 2-bit gradient compression.

Bytes: two workers push and pull a network's arrays in a network namespace, whose loopback has no
other traffic. The bytes of a short job are subtracted from those of a long one. Epochs: the tiny
network trains on the sample's photographs until its accuracy is above 0.5. Results:
docs/explanation/kvstores.md.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from bench.events import Event
from bench.networks.catalog import named
from bench.sweep import Sweep
from bench.trial import Trial, make
from im2rec_tools.commands.prepare import PrepareOptions, prepare, shards_root
from im2rec_tools.commands.sample import sample
from im2rec_tools.commands.trees import SplitOptions
from im2rec_tools.formats.recipe import Recipe
from launch.hosts import ROOT, this_machine
from launch.sweep import ClusterSetup, points, sweep
from results.progress import SweepUpdate
from results.record import Record
from results.store import Store

_JOB: dict[str, Any] = {"kvstore": "dist_sync", "devices": 2}
_FEW, _MANY = 2, 12
_ACCURACY = 0.5
# "$@" is the command to run.
_OWN_LOOPBACK = ("sh", "-c", 'ip link set lo up && exec "$@"', "sh")


def running(*trials: Trial, repeats: int = 1) -> Generator[SweepUpdate]:
    """Yield the updates of these trials; each repeat runs all of them."""
    what = Sweep(name="benchmark", description="", repeats=repeats, trials=trials, text="")
    where = ClusterSetup(hosts=(this_machine(),))
    with tempfile.TemporaryDirectory() as folder, closing(Store(Path(folder))) as store:
        yield from sweep(what, points(what, where), where, store)


def records(*trials: Trial, repeats: int = 1) -> list[Record]:
    """Return the records of these trials in order of execution."""
    return [one for one in running(*trials, repeats=repeats) if isinstance(one, Record)]


def compressing(threshold: float) -> dict[str, Any]:
    """Return the fields of a trial with this threshold; none if it is 0."""
    return {"gc_type": "2bit", "gc_threshold": threshold} if threshold else {}


def loopback_bytes() -> int:
    """Return the bytes sent on this namespace's loopback, with packet headers."""
    lines = Path("/proc/self/net/dev").read_text(encoding="ascii").splitlines()
    (sent,) = (line.split(":")[1].split()[8] for line in lines if line.strip().startswith("lo:"))
    return int(sent)


def moved(network: str, threshold: float, windows: int) -> tuple[int, int]:
    """Return the bytes that a job sends, and the size of the network's arrays."""
    family, layers = named(network)
    alone = {"mode": "bandwidth", "network": family, "num_layers": layers, "precision": 0.0}
    trial = make(
        _JOB | alone | compressing(threshold) | {"batch_per_device": 1, "windows": windows}
    )
    before = loopback_bytes()
    (record,) = records(trial)
    if record.status != "ok":
        raise SystemExit(record.message)
    return loopback_bytes() - before, int(record.ranks[0].facts["bytes_each_way"])


def bytes_a_step(network: str, threshold: float) -> tuple[float, int]:
    """Return bytes per step and worker, both ways; and the size of the arrays."""
    few, arrays = moved(network, threshold, _FEW)
    many, _ = moved(network, threshold, _MANY)
    return (many - few) / (_MANY - _FEW) / _JOB["devices"], arrays


def bytes_with_and_without(network: str) -> tuple[float, float, int]:
    """Return bytes per step without and with compression, and of the arrays.

    Counted in a network namespace without other traffic.
    """
    unshare = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    program = [sys.executable, "-m", "benchmarks.compression", "--network", network, "--bytes"]
    done = subprocess.run(
        [*unshare, *_OWN_LOOPBACK, *program], cwd=ROOT, check=False, stdout=subprocess.PIPE
    )
    if done.returncode:
        raise SystemExit(
            f"{' '.join(unshare)}: expected exit status 0, got {done.returncode}. Run as root, or "
            f"allow user namespaces, and install iproute2 (apt-get install iproute2)"
        )
    plain, compressed, arrays = json.loads(done.stdout)
    return plain, compressed, arrays


@contextmanager
def photographs() -> Iterator[Path]:
    """Make shards of the sample: per class 24 images to train, 6 to validate.

    They are removed at the end.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "s"
        wanted = PrepareOptions(
            split=SplitOptions(images=6), train_shards=2, recipe=Recipe(short_edge=256)
        )
        for _ in (*sample(root, images_per_class=30), *prepare(root, wanted)):
            pass
        yield shards_root(root)


def learning(shards: Path, threshold: float, seed: int, most: int) -> Trial:
    """Return a trial that ends at an accuracy above 0.5 or after `most` epochs."""
    data = {"mode": "real", "data_train": str(shards / "train"), "data_val": str(shards / "val")}
    images = {"image_shape": [3, 224, 224], "num_classes": 10, "rgb_std": [58.393, 57.12, 57.375]}
    until = {"windows": 0, "num_epochs": most, "stop_accuracy": _ACCURACY, "seed": seed}
    return make(_JOB | {"batch_per_device": 16} | data | images | until | compressing(threshold))


def epochs(updates: Sequence[object], most: int) -> str:
    """Return the number of epochs until the job reached its target accuracy."""
    (record,) = (one for one in updates if isinstance(one, Record))
    last = [
        one.values["epoch"] for one in updates if isinstance(one, Event) and one.kind == "epoch"
    ]
    if record.status == "ok":
        return str(max(last) + 1)
    if record.accuracy is None or max(last, default=0) + 1 < most:
        raise SystemExit(record.message)
    return f"not within {most}"


def _print_bytes(network: str) -> None:
    plain, compressed, arrays = bytes_with_and_without(network)
    print(
        f"{network}, {arrays / 1e6:.1f} MB of weights: {plain / 1e6:.1f} MB per step and worker, "
        f"{compressed / 1e6:.1f} MB with 2bit, a factor of {plain / compressed:.2f}",
        flush=True,
    )


def _print_epochs(given: argparse.Namespace) -> None:
    print("| threshold | epochs |\n|---|---|")
    with photographs() as shards:
        for threshold in given.thresholds:
            trials = [learning(shards, threshold, seed, given.epochs) for seed in given.seeds]
            found = [epochs(list(running(trial)), given.epochs) for trial in trials]
            print(f"| {threshold or 'none'} | {', '.join(found)} |", flush=True)


def main() -> None:
    """Parse the command line, measure and print the result."""
    parser = argparse.ArgumentParser("python -m benchmarks.compression", description=__doc__)
    parser.add_argument(
        "--network",
        metavar="NAME",
        default="resnet-18",
        help="Network whose bytes are counted [%(default)s]",
    )
    parser.add_argument(
        "--thresholds",
        metavar="T",
        nargs="*",
        type=float,
        default=[0, 0.1, 0.5, 2],
        help="Thresholds to train with; 0: no compression [0 0.1 0.5 2]",
    )
    parser.add_argument(
        "--seeds",
        metavar="N",
        nargs="+",
        type=int,
        default=[0, 1, 2],
        help="Seeds to train with [0 1 2]",
    )
    parser.add_argument(
        "--epochs", metavar="N", type=int, default=30, help="Maximum number of epochs [%(default)s]"
    )
    parser.add_argument("--bytes", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.bytes:
        plain, arrays = bytes_a_step(given.network, 0)
        print(json.dumps([plain, bytes_a_step(given.network, 0.5)[0], arrays]))
    else:
        _print_bytes(given.network)
        _print_epochs(given)


if __name__ == "__main__":
    main()
