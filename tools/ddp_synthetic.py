"""Train `tiny` by DistributedDataParallel; print as Horovod's benchmark does.

    torchrun --nproc-per-node=2 tools/ddp_synthetic.py --batch-size=8

An example of a program for engine `command` (docs/how-to/measure-programs.md). It trains on CPUs.
"""

import argparse
import sys
import time
from pathlib import Path

import torch
from torch import distributed, nn

sys.path.insert(0, str(Path(__file__).parent.parent))
from bench.networks.torch.catalog import initialized, shaped

SHAPE, CLASSES = (3, 64, 64), 1000


def main() -> None:
    """Print the images per second of a device for each iteration of ten batches."""
    known = argparse.ArgumentParser(description=__doc__)
    known.add_argument("--batch-size", type=int, default=8)
    known.add_argument("--num-iters", type=int, default=1000)
    known.add_argument("--num-batches-per-iter", type=int, default=10)
    options = known.parse_args()
    distributed.init_process_group("gloo")
    torch.manual_seed(distributed.get_rank())
    net = shaped("tiny", num_classes=CLASSES, num_layers=None, image_shape=SHAPE)
    net = nn.parallel.DistributedDataParallel(initialized(net, initializer="xavier", seed=0))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    images = torch.rand(options.batch_size, *SHAPE)
    labels = torch.randint(CLASSES, (options.batch_size,))
    first = distributed.get_rank() == 0
    if first:
        print(f"Model: tiny\nBatch size: {options.batch_size}")
        print(f"Number of CPUs: {distributed.get_world_size()}", flush=True)
    for number in range(options.num_iters):
        begun = time.perf_counter()
        for _ in range(options.num_batches_per_iter):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images), labels).backward()
            optimizer.step()
        count = options.batch_size * options.num_batches_per_iter
        if first:
            speed = count / (time.perf_counter() - begun)
            print(f"Iter #{number}: {speed:.1f} img/sec per CPU", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
