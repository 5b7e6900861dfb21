"""Training steps against upstream's: `python -m benchmarks.train`.

Three processes hold the same network, with the same first weights, and take turns: one trains as
a worker does, one as a worker with `--costs upstream`, one as upstream's train_imagenet.py, by
Module, with its copy of the input, its store and its accuracy in each step. Each turn begins and
ends with a wait for all of MXNet's work; medians are compared.
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
from dataclasses import replace
from typing import Any

from bench.training.options import Options, parse
from bench.training.startup import prepare_arithmetic

NETWORKS = {"alexnet": 8, "inception-v3": 2, "resnet-50": 4, "resnet-152": 2, "tiny": 32}
# From idle, a step: the first of a process builds the graph.
_WARM_UP = 2
# Threads of the process whose turn is over spin for a while.
_REST_SECONDS = 0.3


def options(network: str, batch: int, dtype: str) -> Options:
    """What a worker of ours is asked for, and upstream's with it."""
    words = f"--network {network} --batch-size {batch} --dtype {dtype} --benchmark 1 --windows 1"
    return parse([*words.split(), "--lr", "0.01"])


def ours(asked: Options) -> Callable[[], object]:
    """A step as a worker takes it."""
    from bench.data.loader import synthetic_batches  # noqa: PLC0415 - loads MXNet
    from bench.training.worker import build_worker, step  # noqa: PLC0415

    worker = build_worker(asked)
    batches = synthetic_batches(asked, worker.contexts, worker.rank)
    return lambda: step(worker, next(batches))


def costly(asked: Options) -> Callable[[], object]:
    """A step of a worker with upstream's costs."""
    return ours(replace(asked, costs="upstream"))


def module(asked: Options) -> Callable[[], object]:
    """A step as upstream's common/fit.py has it: Module, its store, SGD, accuracy."""
    from bench.data.loader import synthetic_batches  # noqa: PLC0415
    from bench.training.checkpoint import symbol  # noqa: PLC0415 - loads MXNet
    from bench.training.mxnet_shim import mx  # noqa: PLC0415
    from bench.training.worker import build_network  # noqa: PLC0415

    net = build_network(asked, [mx.cpu()])
    shape = (asked.batch_size, *asked.image_shape)
    whole = symbol(net)  # of upstream's operators
    model = mx.mod.Module(whole)
    model.bind([("data", shape)], [("softmax_label", shape[:1])])
    weights = {name: value.data() for name, value in net.collect_params().items()}
    kept = {name: weights[name] for name in whole.list_auxiliary_states()}
    model.init_params(arg_params=weights, aux_params=kept, allow_extra=True)
    model.init_optimizer(
        kvstore=mx.kv.create("device"),
        optimizer_params={"learning_rate": asked.lr, "momentum": asked.mom, "wd": asked.wd},
    )
    accuracy = mx.metric.create("accuracy")
    batches = synthetic_batches(asked, [mx.cpu()], 0)

    def step() -> None:
        data, label = next(batches)
        model.forward_backward(mx.io.DataBatch(data=data, label=label))
        model.update()
        model.update_metric(accuracy, label)

    return step


WAYS = {"ours": ours, "costly": costly, "module": module}


def take_turns(way: str, asked: Options, cores: Sequence[int]) -> None:
    """A process of one way: for each line, that many steps and what they took, in JSON."""
    os.sched_setaffinity(0, cores)
    if way != "module":
        prepare_arithmetic(asked.dtype)
    step = WAYS[way](asked)
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

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
    ways: Sequence[tuple[str, Sequence[str]]], threads: int, rounds: int, steps: int
) -> list[list[tuple[float, float]]]:
    """(seconds, processor seconds) per step of each way, which is (name, words), in turn."""
    with ExitStack() as stack:
        turns = [Turns(way, words, threads) for way, words in ways]
        for one in turns:
            stack.callback(one.close)
            one.take(_WARM_UP)
        taken: list[list[tuple[float, float]]] = [[] for _ in turns]
        for number in range(rounds):
            for place in range(len(turns)):
                which = (place + number) % len(turns)
                wall, cpu = turns[which].take(steps)
                taken[which].append((wall / steps, cpu / steps))
    return taken


def _report(name: str, batch: int, threads: int, taken: Any) -> list[float]:
    """Print a line of the table; the ratios of images/s to the base's."""
    wall = [statistics.median(step[0] for step in steps) for steps in taken]
    cpu = [statistics.median(step[1] for step in steps) for steps in taken]
    ratios = [wall[-1] / one for one in wall[:-1]]
    cells = [f"{name} b{batch}", str(threads)]
    cells += [f"{batch / one:.2f}" for one in wall]
    cells += [f"{one:.3f}" for one in ratios]
    cells += [f"{cpu[-1] / one:.3f}" for one in cpu[:-1]]
    print(f"| {' | '.join(cells)} |", flush=True)
    return ratios


def _compare_all(given: argparse.Namespace) -> None:
    """Print the table: without and with upstream's costs, each against the base."""
    names = ("without costs", "with upstream's costs")
    heads = ["network", "threads", *(f"images/s {one}" for one in names), "base"]
    heads += [f"ratio {one}" for one in names] + [f"by CPU time {one}" for one in names]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    ratios = []
    for threads in given.threads:
        for name in given.networks:
            batch = NETWORKS[name]
            words = ["--network", name, "--batch", str(batch), "--dtype"]
            ways = [(way, [*words, given.dtype]) for way in ("ours", "costly")]
            taken = compared(
                [*ways, (given.base, [*words, "float32"])], threads, given.rounds, given.steps
            )
            ratios.append(_report(name, batch, threads, taken))
    for name, column in zip(names, zip(*ratios, strict=True), strict=True):
        mean = statistics.geometric_mean(column)
        print(f"{name}: geometric mean {mean:.3f}, least {min(column):.3f}")


def main() -> None:
    """Parses the command line, measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS)[:-1])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], help="and cores")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each")
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
