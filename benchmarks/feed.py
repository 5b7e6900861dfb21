"""Compare the throughput of shard readers with a network that does almost nothing.

The readers alternate, each run in a fresh process. The first is MXNet's ImageRecordIter as upstream
uses it; ratios are relative to it. Results: docs/explanation/benchmarks.md.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from bench.data import loader
from bench.data.partition import whole_data
from bench.data.shards import shards
from bench.environment import describe
from bench.errors import SpecError
from bench.training.mxnet import inputs
from bench.training.mxnet_shim import mx
from bench.training.options import Options, parse
from launch.hosts import ROOT

_BATCH = 32
_SETTLE_SECONDS, _SECONDS = 2.0, 6.0
_CORES = len(os.sched_getaffinity(0))


def _options(data: str) -> Options:
    threads = str(max(4, _CORES))
    line = ("--data-train", data, "--image-shape", "3,224,224", "--data-nthreads", threads)
    return parse([*line, "--batch-size", str(_BATCH)])


def _theirs(options: Options, **more: str) -> Iterator[tuple[Any, Any]]:
    paths = shards(options.data_train)
    if len(paths) == 1:
        more["path_imgidx"] = str(paths[0].with_suffix(".idx"))
    mean = dict(zip(("mean_r", "mean_g", "mean_b"), options.rgb_mean, strict=True))
    iterator = mx.io.ImageRecordIter(
        path_imgrec=";".join(map(str, paths)),
        data_shape=options.image_shape,
        batch_size=_BATCH,
        preprocess_threads=4,
        shuffle=True,
        verbose=False,
        **mean,
        **more,
    )
    while True:
        iterator.reset()
        for batch in iterator:
            yield batch.data[0], batch.label[0]


def _ours(options: Options) -> Iterator[tuple[Any, Any]]:
    portion = whole_data(options.data_train)
    return inputs.training_batches(options, portion, loader.shuffled_orders(options, portion))


WAYS: dict[str, Callable[[Options], Iterator[tuple[Any, Any]]]] = {
    "ImageRecordIter": _theirs,
    "ImageRecordIter, ctx=cpu": lambda options: _theirs(options, ctx="cpu"),
    "mxscale": _ours,
}


def _train(batches: Iterator[tuple[Any, Any]]) -> dict[str, float]:
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.GlobalAvgPool2D(), mx.gluon.nn.Dense(10))
    net.initialize()
    net.hybridize(static_alloc=True, static_shape=True)
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1e-6})

    def steps(least: float) -> dict[str, float]:
        count, cpu, start = 0, time.process_time(), time.perf_counter()
        while (seconds := time.perf_counter() - start) < least:
            (data,), (label,) = inputs.split(*next(batches), [mx.cpu(0)])
            with mx.autograd.record():
                loss = loss_of(net(data), label)
            loss.backward()
            trainer.step(_BATCH)
            loss.wait_to_read()
            count += _BATCH
        return {"rate": count / seconds, "cpu": (time.process_time() - cpu) / count * 1e3}

    steps(_SETTLE_SECONDS)
    return steps(_SECONDS)


def _measured(way: str, data: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.feed", data, "--way", way]
    cores = str(_CORES) if "ctx" in way else "1"  # the other readers do not decode with OpenMP
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": cores},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print one row per reader: throughput, ratio, CPU time per image."""
    parser = argparse.ArgumentParser("python -m benchmarks.feed", description=__doc__)
    parser.add_argument(
        "data", metavar="DATA", help="Shard or folder of shards, such as data/mine_rec/train"
    )
    parser.add_argument(
        "repeats",
        metavar="REPEATS",
        nargs="?",
        type=int,
        default=5,
        help="Runs of each reader; medians are printed [%(default)s]",
    )
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        print(json.dumps(_train(WAYS[given.way](_options(given.data)))))
        return
    if given.repeats < 1:
        parser.error(f"REPEATS: expected at least 1, got {given.repeats}")
    try:
        shards(given.data)
    except SpecError as error:
        parser.error(str(error))
    rounds = [{way: _measured(way, given.data) for way in WAYS} for _ in range(given.repeats)]
    here = describe(ROOT)
    print(
        f"{here['processor']}, {here['cores']} cores, Python {here['python']}; n = {given.repeats}"
    )
    first = next(iter(WAYS))
    for way in WAYS:
        rates = [one[way]["rate"] for one in rounds]
        ratio = median(one[way]["rate"] / one[first]["rate"] for one in rounds)
        cpu = median(one[way]["cpu"] for one in rounds)
        print(
            f"{way:26} {median(rates):7.0f} images/s ({min(rates):.0f} to {max(rates):.0f}), "
            f"ratio {ratio:.2f}, {cpu:.2f} CPU ms per image"
        )


if __name__ == "__main__":
    main()
