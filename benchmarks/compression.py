"""Savings and cost of 2-bit gradients: `python -m benchmarks.compression`.

Bytes: two workers push and pull a network's arrays, in a network namespace whose loopback has no
other traffic; what a job of many windows moves, less a job of few. Epochs: the tiny network on the
sample's photographs until its accuracy is above 0.5. docs/speed.md has figures.
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
from results.progress import JobProgress
from results.record import Record, RepeatStart
from results.store import Store

_JOB: dict[str, Any] = {"kvstore": "dist_sync", "devices": 2}
_FEW, _MANY = 2, 12
_ACCURACY = 0.5
# The command in it is told by "$@".
_OWN_LOOPBACK = ("sh", "-c", 'ip link set lo up && exec "$@"', "sh")


def running(
    *trials: Trial, repeats: int = 1
) -> Generator[RepeatStart | Event | JobProgress | Record]:
    """The updates of these trials, all of them once and then again."""
    what = Sweep(name="benchmark", description="", repeats=repeats, trials=trials, text="")
    where = ClusterSetup(hosts=(this_machine(),))
    with tempfile.TemporaryDirectory() as folder, closing(Store(Path(folder))) as store:
        yield from sweep(what, points(what, where), where, store)


def records(*trials: Trial, repeats: int = 1) -> list[Record]:
    """The records of these trials, in the order they were made."""
    return [one for one in running(*trials, repeats=repeats) if isinstance(one, Record)]


def compressing(threshold: float) -> dict[str, Any]:
    """Fields of a trial; 0 compresses nothing."""
    return {"gc_type": "2bit", "gc_threshold": threshold} if threshold else {}


def loopback_bytes() -> int:
    """Bytes that this network namespace has sent to itself, headers of packets included."""
    lines = Path("/proc/self/net/dev").read_text(encoding="ascii").splitlines()
    (sent,) = (line.split(":")[1].split()[8] for line in lines if line.strip().startswith("lo:"))
    return int(sent)


def moved(network: str, threshold: float, windows: int) -> tuple[int, int]:
    """Bytes that a whole job sends, and those of the network's arrays."""
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
    """Bytes of a step and worker, both ways, and those of the arrays, one way."""
    few, arrays = moved(network, threshold, _FEW)
    many, _ = moved(network, threshold, _MANY)
    return (many - few) / (_MANY - _FEW) / _JOB["devices"], arrays


def apart(network: str) -> tuple[float, float, int]:
    """Bytes of a step without and with compression and of the arrays, where nobody else sends."""
    unshare = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    program = [sys.executable, "-m", "benchmarks.compression", "--network", network, "--bytes"]
    done = subprocess.run(
        [*unshare, *_OWN_LOOPBACK, *program], cwd=ROOT, check=False, stdout=subprocess.PIPE
    )
    if done.returncode:
        raise SystemExit(f"{unshare!r} needs namespaces, and `ip`: ended with {done.returncode}")
    plain, compressed, arrays = json.loads(done.stdout)
    return plain, compressed, arrays


@contextmanager
def photographs() -> Iterator[Path]:
    """Shards of the sample for a while: 24 photographs of each class to train on, 6 to validate."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "s"
        wanted = PrepareOptions(
            split=SplitOptions(images=6), train_shards=2, recipe=Recipe(short_edge=256)
        )
        for _ in (*sample(root, images_per_class=30), *prepare(root, wanted)):
            pass
        yield shards_root(root)


def learning(shards: Path, threshold: float, seed: int, most: int) -> Trial:
    """The tiny network on these photographs, to an accuracy above 0.5 or `most` epochs long."""
    data = {"mode": "real", "data_train": str(shards / "train"), "data_val": str(shards / "val")}
    images = {"image_shape": [3, 224, 224], "num_classes": 10, "rgb_std": [58.393, 57.12, 57.375]}
    until = {"windows": 0, "num_epochs": most, "stop_accuracy": _ACCURACY, "seed": seed}
    return make(_JOB | {"batch_per_device": 16} | data | images | until | compressing(threshold))


def epochs(updates: Sequence[object], most: int) -> str:
    """How many epochs a job took to the accuracy that it was to stop at."""
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
    plain, compressed, arrays = apart(network)
    print(
        f"{network}, {arrays / 1e6:.1f} MB of weights, a step and worker: {plain / 1e6:.1f} MB, "
        f"with 2bit {compressed / 1e6:.1f} MB, {plain / compressed:.2f} times less",
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
    """Parses the command line, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--network", default="resnet-18", help="whose bytes are counted")
    parser.add_argument(
        "--thresholds", nargs="*", type=float, default=[0, 0.1, 0.5, 2], help="0: not compressed"
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, default=30, help="at most")
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
