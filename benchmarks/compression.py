"""Measure savings and cost of compressed gradients.

Bytes: two workers push and pull a network's arrays, or train with all-reduce, in a network
namespace whose loopback has no other traffic. The bytes of a short job are subtracted from those of
a long one. Epochs: the tiny network trains on the sample's photographs until its accuracy is above
0.5. Accuracies: it trains for a number of epochs. Results: docs/explanation/kvstores.md and
docs/explanation/all-reduce.md.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from bench.events import Event
from bench.kvstores import ALL_REDUCE, SHARED_VARIABLE, TERNARY
from bench.networks.catalog import named
from bench.statistics.confidence import student
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
_ALL_REDUCE: dict[str, Any] = {
    **_JOB,
    "kvstore": ALL_REDUCE,
    "env": [f"{SHARED_VARIABLE}=0"],
}
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


def moved(network: str, fields: dict[str, Any], windows: int) -> int:
    """Return the bytes that a job sends."""
    family, layers = named(network)
    alone = {"network": family, "num_layers": layers, "precision": 0.0, "batch_per_device": 1}
    trial = make(fields | alone | {"windows": windows})
    before = loopback_bytes()
    (record,) = records(trial)
    if record.status != "ok":
        raise SystemExit(record.message)
    return loopback_bytes() - before


def bytes_a_step(network: str, fields: dict[str, Any]) -> float:
    """Return bytes per step and worker, both ways."""
    few, many = (moved(network, fields, windows) for windows in (_FEW, _MANY))
    return (many - few) / (_MANY - _FEW) / int(_JOB["devices"])


def bytes_by_kind(network: str) -> dict[str, float]:
    """Return bytes per step and worker by kvstore and compression, both ways.

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
    counted: dict[str, float] = json.loads(done.stdout)
    return counted


@contextmanager
def photographs(training: int = 24, validation: int = 6) -> Iterator[Path]:
    """Make shards of the sample with so many images per class.

    They are removed at the end.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "s"
        wanted = PrepareOptions(
            split=SplitOptions(images=validation), train_shards=2, recipe=Recipe(short_edge=256)
        )
        for _ in (*sample(root, images_per_class=training + validation), *prepare(root, wanted)):
            pass
        yield shards_root(root)


def learning(shards: Path, fields: dict[str, Any], seed: int, most: int) -> Trial:
    """Return a trial of `most` epochs with these fields."""
    data = {"mode": "real", "data_train": str(shards / "train"), "data_val": str(shards / "val")}
    images = {"image_shape": [3, 224, 224], "num_classes": 10, "rgb_std": [58.393, 57.12, 57.375]}
    until = {"windows": 0, "num_epochs": most, "seed": seed}
    return make({"batch_per_device": 16} | data | images | until | fields)


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


def _bytes_of(network: str) -> dict[str, float]:
    """Count the bytes per step and worker by kind, in this namespace."""
    pushes = _JOB | {"mode": "bandwidth"}
    return {
        "dist_sync": bytes_a_step(network, pushes),
        "dist_sync, 2bit": bytes_a_step(network, pushes | compressing(0.5)),
        "allreduce": bytes_a_step(network, _ALL_REDUCE),
        "allreduce, ternary": bytes_a_step(network, _ALL_REDUCE | {"gc_type": TERNARY}),
    }


def _print_bytes(network: str) -> None:
    print(f"| {network} | MB per step and worker |\n|---|---|")
    for kind, count in bytes_by_kind(network).items():
        print(f"| {kind} | {count / 1e6:.2f} |", flush=True)


def _print_epochs(given: argparse.Namespace) -> None:
    print("| threshold | epochs |\n|---|---|")
    with photographs() as shards:
        for threshold in given.thresholds:
            fields = _JOB | compressing(threshold) | {"stop_accuracy": _ACCURACY}
            trials = [learning(shards, fields, seed, given.epochs) for seed in given.seeds]
            found = [epochs(list(running(trial)), given.epochs) for trial in trials]
            print(f"| {threshold or 'none'} | {', '.join(found)} |", flush=True)


def _print_accuracies(given: argparse.Namespace) -> None:
    """Print accuracies after the epochs, with 95 % CIs of their means over the seeds."""
    kinds = {f"2bit, threshold {value:g}": _JOB | compressing(value) for value in given.thresholds}
    kinds = {"none": _ALL_REDUCE, "ternary": _ALL_REDUCE | {"gc_type": TERNARY}, **kinds}
    print("| gradients | accuracy | mean, 95 % CI |\n|---|---|---|")
    with photographs(48, 24) as shards:
        for kind, fields in kinds.items():
            trials = [learning(shards, fields, seed, given.epochs) for seed in given.seeds]
            done = records(*trials)
            found = [one.accuracy for one in done if one.accuracy is not None]
            if len(found) < len(trials):
                raise SystemExit(next(one.message for one in done if one.accuracy is None))
            each = ", ".join(f"{one:.3f}" for one in found)
            print(f"| {kind} | {each} | {_interval(found)} |", flush=True)


def _interval(found: Sequence[float]) -> str:
    """Return the mean of independent values with its 95 % CI, if there are several."""
    mean, count = statistics.mean(found), len(found)
    if count < 2:
        return f"{mean:.3f}"
    half = student(count - 1) * statistics.stdev(found) / math.sqrt(count)
    return f"{mean:.3f} ± {half:.3f}"


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
    parser.add_argument(
        "--only", choices=("bytes", "epochs", "accuracies"), help="Measure one of three [all]"
    )
    parser.add_argument("--bytes", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.bytes:
        print(json.dumps(_bytes_of(given.network)))
        return
    if given.only in {None, "bytes"}:
        _print_bytes(given.network)
    if given.only in {None, "epochs"}:
        _print_epochs(given)
    if given.only in {None, "accuracies"}:
        _print_accuracies(given)


if __name__ == "__main__":
    main()
