"""Steps of training by engine `torch`, in one worker or several.

    python -m tests.support.training.ddp 'OPTIONS OF A WORKER' ...

prints a line of JSON with the results of each command line, one after another.
"""

import json
import os
import socket
import subprocess
import sys
from typing import Any

import numpy as np

from bench.training.options import Options, parse
from tests.support.paths import ROOT

TINY = "--engine torch --network tiny --image-shape 3,32,32 --num-classes 10 --benchmark 1 "
TINY += "--windows 1 --kv-store ddp"
STEPS = 3


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def images_of(options: Options, first: int, count: int) -> tuple[Any, Any]:
    """Return these images of the global batch, and their labels."""
    draws = [np.random.RandomState(first + n) for n in range(count)]
    images = [one.uniform(-1, 1, options.image_shape) for one in draws]
    labels = [one.randint(options.num_classes) for one in draws]
    return np.array(images, np.float32), np.array(labels)


def steps(line: str, job: Any = None) -> dict[str, Any]:
    """Run a few steps of a worker's command line; return what they gave."""
    import torch  # noqa: PLC0415 - only tests of PyTorch need it

    from bench.training.batch import batch_slice  # noqa: PLC0415
    from bench.training.torch.rendezvous import Job  # noqa: PLC0415
    from bench.training.torch.worker import build_step  # noqa: PLC0415

    options, job = parse(line.split()), job or Job()
    whole = options.global_batch or options.batch_size * job.num_workers
    mine = batch_slice(whole, job.rank, job.num_workers)
    step = build_step(options, job, whole)
    made = images_of(options, mine.first, mine.count)
    images, labels = (torch.from_numpy(one).to(step.device) for one in made)
    losses = []
    for _ in range(STEPS):
        loss, _ = step.gradients(images, labels)
        step.update()
        losses.append(float(loss) * mine.count)
    weights = np.concatenate([one.ravel() for _, one in step.arrays()])
    return {
        "rank": job.rank,
        "losses": losses,
        "hash": step.digest(),
        "weights": [float(one) for one in weights[::997]],
        "bytes": step.exchanged_bytes(),
        "sums": job.sums((job.rank, 2**52)),
        "any": job.any(job.rank == 1),
        "told": job.broadcast(0.5 + job.rank),
    }


def run_workers(*lines: str, workers: int = 2) -> list[list[dict[str, Any]]]:
    """Run a job for all command lines; return the results of each by rank."""
    env = os.environ | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(workers),
        "MXSCALE_ADDRESS": "127.0.0.1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "tests.support.training.ddp", *lines]
    started = [
        subprocess.Popen(
            command, cwd=ROOT, env=env | {"RANK": str(rank)}, stdout=subprocess.PIPE, text=True
        )
        for rank in range(workers)
    ]
    try:
        printed = [one.communicate(timeout=120)[0] for one in started]
    finally:
        for one in started:
            one.kill()
            one.wait()
    results = [[json.loads(line) for line in text.splitlines()] for text in printed]
    return [list(each) for each in zip(*results, strict=True)]


if __name__ == "__main__":
    from bench.training.torch.rendezvous import join

    place = join()
    for words in sys.argv[1:]:
        print(json.dumps(steps(words, place)), flush=True)
