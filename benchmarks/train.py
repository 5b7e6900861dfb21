"""Compare training steps with upstream's.

Three processes have the same network and first weights, and alternate: a worker, a worker with
'--costs upstream', and upstream's train_imagenet.py with Module. Each step of the last two copies
its input, updates its store and computes the accuracy. Each turn begins and ends with a wait for
all of MXNet's operations; medians are compared. Results: docs/explanation/benchmarks.md.
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
# The first step of a process builds the graph.
_WARM_UP = 2
# Threads of a process spin for a while after its turn.
_REST_SECONDS = 0.3


def options(network: str, batch: int, dtype: str) -> Options:
    """Return the options of all three processes."""
    words = f"--network {network} --batch-size {batch} --dtype {dtype} --benchmark 1 --windows 1"
    return parse([*words.split(), "--lr", "0.01"])


def ours(asked: Options) -> Callable[[], object]:
    """Return a function that runs one step of a worker."""
    from bench.training.mxnet.inputs import synthetic_batches  # noqa: PLC0415 - loads MXNet
    from bench.training.mxnet.worker import build_worker, step  # noqa: PLC0415

    worker = build_worker(asked)
    batches = synthetic_batches(asked, worker.contexts, worker.rank)
    return lambda: step(worker, next(batches))


def costly(asked: Options) -> Callable[[], object]:
    """Return a function that runs one step of a worker with upstream's costs."""
    return ours(replace(asked, costs="upstream"))


def module(asked: Options) -> Callable[[], object]:
    """Return a function that runs one step of upstream's common/fit.py.

    Module with its store, SGD and accuracy.
    """
    from bench.training.mxnet.checkpoint import symbol  # noqa: PLC0415 - loads MXNet
    from bench.training.mxnet.inputs import synthetic_batches  # noqa: PLC0415
    from bench.training.mxnet.worker import build_network  # noqa: PLC0415
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

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
    """Run as many steps as each line of stdin gives; print their times as JSON."""
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
    """Process that trains a network in one of the three ways."""

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
        """Return the seconds and CPU seconds of that many steps."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"benchmarks.train: {self._process.args!r} ended; see its error above")
        time.sleep(_REST_SECONDS)
        wall, cpu = json.loads(line)
        return wall, cpu

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def compared(
    ways: Sequence[tuple[str, Sequence[str]]], threads: int, rounds: int, steps: int
) -> list[list[tuple[float, float]]]:
    """Return (seconds, CPU seconds) per step and round of each way, in turn.

    A way is (name, options).
    """
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
    """Print a line of the table and return its throughput ratios to the baseline."""
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
    """Print the table: without and with upstream's costs, vs the baseline."""
    names = ("without costs", "with upstream's costs")
    heads = ["network", "threads", *(f"images/s {one}" for one in names), "baseline"]
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
        print(f"{name}: geometric mean {mean:.3f}, minimum {min(column):.3f}")


def main() -> None:
    """Parse the command line, measure and print the result."""
    parser = argparse.ArgumentParser("python -m benchmarks.train", description=__doc__)
    parser.add_argument(
        "--networks",
        metavar="NAME",
        nargs="+",
        choices=NETWORKS,
        default=list(NETWORKS)[:-1],
        help=f"Networks: {', '.join(NETWORKS)} [all but tiny]",
    )
    parser.add_argument(
        "--threads",
        metavar="N",
        nargs="+",
        type=int,
        default=[1, 2],
        help="Numbers of threads, each on as many cores [1 2]",
    )
    parser.add_argument(
        "--rounds", metavar="N", type=int, default=9, help="Turns of each process [%(default)s]"
    )
    parser.add_argument(
        "--steps", metavar="N", type=int, default=2, help="Steps per turn [%(default)s]"
    )
    parser.add_argument(
        "--dtype",
        metavar="NAME",
        default="float32",
        help="Data type of mxscale's workers; the baseline has float32 [%(default)s]",
    )
    parser.add_argument(
        "--base",
        metavar="NAME",
        choices=WAYS,
        default="module",
        help="Baseline of the ratios: `ours` (mxscale's worker), `costly` (with upstream's costs) "
        "or `module` (upstream) [%(default)s]",
    )
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
