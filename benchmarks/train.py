"""Training steps against upstream's: `python -m benchmarks.train`, docs/speed.md has figures.

Two processes hold the same network, with the same first weights, and take turns: one trains as a
worker of ours does, the other as upstream's train_imagenet.py, by Module with its accuracy. Each
turn begins and ends with a wait for all of MXNet's work; medians are compared.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from bench.options import Options, parse
from bench.processor import prepare

NETWORKS = {"alexnet": 8, "inception-v3": 2, "resnet-50": 4, "resnet-152": 2}
# From idle, a step: the first of a process builds the graph.
_WARM_UP = 2
# Threads of the process whose turn is over spin for a while.
_REST_SECONDS = 0.3


def options(network: str, batch: int, dtype: str) -> Options:
    """What a worker of ours is asked for, and upstream's with it."""
    words = f"--network {network} --batch-size {batch} --dtype {dtype} --benchmark 1 --windows 1"
    return parse([*words.split(), "--lr", "0.01"])


def ours(asked: Options) -> Callable[[], object]:
    """A step as a worker of ours takes it."""
    from bench.inputs import synthetic  # noqa: PLC0415 - loads MXNet
    from bench.worker import build, step  # noqa: PLC0415

    worker = build(asked)
    batches = synthetic(asked, worker.contexts, worker.rank)
    return lambda: step(worker, next(batches))


def module(asked: Options) -> Callable[[], object]:
    """A step as upstream's common/fit.py has it: Module, its store, SGD, accuracy."""
    from bench.inputs import synthetic  # noqa: PLC0415 - loads MXNet
    from bench.model import network  # noqa: PLC0415
    from bench.mxnet_import import mx  # noqa: PLC0415

    net = network(asked, [mx.cpu()])
    net.apply(lambda block: setattr(block, "composed", False))  # upstream's operators
    shape = (asked.batch_size, *asked.image_shape)
    net(mx.nd.zeros(shape))  # its shapes are known from here on
    symbol = mx.sym.SoftmaxOutput(net(mx.sym.var("data")), name="softmax")
    model = mx.mod.Module(symbol)
    model.bind([("data", shape)], [("softmax_label", shape[:1])])
    weights = {name: value.data() for name, value in net.collect_params().items()}
    kept = {name: weights[name] for name in symbol.list_auxiliary_states()}
    model.init_params(arg_params=weights, aux_params=kept, allow_extra=True)
    model.init_optimizer(
        kvstore=mx.kv.create("device"),
        optimizer_params={"learning_rate": asked.lr, "momentum": asked.mom, "wd": asked.wd},
    )
    accuracy = mx.metric.create("accuracy")
    batches = synthetic(asked, [mx.cpu()], 0)

    def step() -> None:
        data, label = next(batches)
        model.forward_backward(mx.io.DataBatch(data=data, label=label))
        model.update()
        model.update_metric(accuracy, label)

    return step


WAYS = {"ours": ours, "module": module}


def take_turns(way: str, asked: Options, cores: Sequence[int]) -> None:
    """A process of one way: for each line, that many steps and what they took, in JSON."""
    os.sched_setaffinity(0, cores)
    if way == "ours":
        prepare(asked.dtype)
    step = WAYS[way](asked)
    from bench.mxnet_import import mx  # noqa: PLC0415

    for line in sys.stdin:
        mx.nd.waitall()
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            step()
        mx.nd.waitall()
        print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]), flush=True)


class Turns:
    """The process of one way of training a network, from this side."""

    def __init__(self, way: str, words: Sequence[str], threads: int) -> None:
        cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.train", "--way", way, "--cores", cores, *words],
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def take(self, steps: int) -> tuple[float, float]:
        """Seconds and processor seconds of so many steps."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._process.args!r} ended")
        time.sleep(_REST_SECONDS)
        wall, cpu = json.loads(line)
        return wall, cpu

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.communicate()


def compared(
    first: Sequence[Any], second: Sequence[Any], threads: int, rounds: int, steps: int
) -> list[list[tuple[float, float]]]:
    """(seconds, processor seconds) a step of two ways, turn about; each is (way, words)."""
    with ExitStack() as stack:
        pair = [Turns(way, words, threads) for way, words in (first, second)]
        for one in pair:
            stack.callback(one.close)
            one.take(_WARM_UP)
        taken: list[list[tuple[float, float]]] = [[], []]
        for number in range(rounds):
            for which in (0, 1) if number % 2 else (1, 0):
                wall, cpu = pair[which].take(steps)
                taken[which].append((wall / steps, cpu / steps))
    return taken


def _report(name: str, batch: int, threads: int, taken: Any) -> float:
    """Prints a line of the table; the ratio of images a second, by the clock."""
    wall = [statistics.median(step[0] for step in steps) for steps in taken]
    cpu = [statistics.median(step[1] for step in steps) for steps in taken]
    print(
        f"| {name} b{batch} | {threads} | {batch / wall[0]:.2f} | {batch / wall[1]:.2f} | "
        f"{wall[1] / wall[0]:.3f} | {cpu[1] / cpu[0]:.3f} | {cpu[0] / wall[0]:.2f} |",
        flush=True,
    )
    return float(wall[1] / wall[0])


def _compare_all(given: argparse.Namespace) -> None:
    print("| network | threads | images/s | base | ratio | by CPU time | cores busy |")
    print("|---|---|---|---|---|---|---|")
    ratios = []
    for threads in given.threads:
        for name in given.networks:
            batch = NETWORKS[name]
            words = ["--network", name, "--batch", str(batch), "--dtype"]
            first = ("ours", [*words, given.dtype])
            second = (given.base, [*words, "float32"])
            taken = compared(first, second, threads, given.rounds, given.steps)
            ratios.append(_report(name, batch, threads, taken))
    print(f"geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}")


def main() -> None:
    """Parses the command line, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], help="and cores")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each of the two")
    parser.add_argument("--steps", type=int, default=2, help="a turn")
    parser.add_argument("--dtype", default="float32", help="of ours; the base has float32")
    parser.add_argument("--base", choices=WAYS, default="module", help="what ours is held against")
    for hidden in ("--way", "--cores", "--network", "--batch"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        asked = options(given.network, int(given.batch), given.dtype)
        take_turns(given.way, asked, [int(core) for core in given.cores.split(",")])
    else:
        _compare_all(given)


if __name__ == "__main__":
    main()
