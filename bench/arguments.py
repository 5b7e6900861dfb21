"""The command line of a worker: upstream train_imagenet.py's names and defaults, by theme.

Where a default differs from upstream's its line below says what it is for.
"""

import argparse

from bench import augmentation
from bench.errors import SpecError
from bench.kvstores import COMPRESSIONS
from bench.networks import NETWORKS
from bench.optimizers import INITIALIZERS, OPTIMIZERS
from bench.schedule import STRATEGIES

DTYPES = ("float32", "float16", "bfloat16")
# Of a step on synthetic data, beside training: none, or those in the speed that upstream prints.
COSTS = ("none", "upstream")
# Of a device; nothing has room for more.
MOST_BATCH = 1 << 16
DATA = "a .rec file, a folder of them, several joined by ';', or a .txt file with a path a line"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        name = self.prog.rpartition(".")[2]
        raise SpecError(f"{name}: {message} (--help lists the options)")


def empty(program: str, description: str) -> argparse.ArgumentParser:
    """A command line without options, whose mistakes are SpecErrors."""
    return _Parser(
        prog=f"python -m bench.{program}",
        description=description,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,  # --batch would change its meaning with the next option
    )


def parser() -> argparse.ArgumentParser:
    """The command line of `python -m bench.train_imagenet`."""
    made = empty(
        "train_imagenet", "Trains an image classifier on one worker and times it window by window."
    )
    add_all(made)
    return made


def add_all(made: argparse.ArgumentParser) -> None:
    """Every option of a worker."""
    _add_network(made)
    _add_batch(made)
    _add_training(made)
    _add_checkpoints(made)
    add_data(made)
    augmentation.add_options(made)
    _add_measuring(made)


def _add_network(made: argparse.ArgumentParser) -> None:
    add = made.add_argument_group("network").add_argument
    add("--network", default="resnet", help=f"one of {', '.join(NETWORKS)}")
    add("--num-layers", type=int, help="depth, for resnet and vgg")
    add("--image-shape", help="channels,height,width (default: the network's own)")
    add("--num-classes", type=int, default=1000, help="classes that labels number from 0")
    add(
        "--initializer",
        default="default",
        choices=INITIALIZERS,
        help="of all weights; default: upstream's for the network",
    )
    add("--dtype", default="float32", choices=DTYPES, help="what is computed in")
    add("--seed", type=int, default=0, help="of first weights, orders and random changes")


def _add_batch(made: argparse.ArgumentParser) -> None:
    add = made.add_argument_group("devices and batch").add_argument
    batch = made.add_mutually_exclusive_group().add_argument
    batch("--batch-size", type=int, default=128, help="images a step of THIS worker")
    batch("--global-batch", type=int, default=0, help="images a step of all workers together")
    batch(
        "--auto-batch",
        type=int,
        nargs="?",
        const=MOST_BATCH,
        default=0,
        metavar="MOST",
        help="the largest that fits, at most so many images a device; 0: as --batch-size says",
    )
    add("--gpus", default="", help="for example 0,1,2; empty: CPU")
    add("--cpus", type=int, default=1, help="CPU devices where --gpus is empty")
    add("--kv-store", default="device", help="local, device, dist_sync, dist_async, ...")
    add("--expect-workers", type=int, default=0, help="fail unless the job has this many (0: any)")
    add("--gc-type", default="none", choices=COMPRESSIONS, help="compression of gradients")
    add("--gc-threshold", type=float, default=0.5, help="of 2bit: what a bit stands for")
    add("--macrobatch-size", type=int, default=0, help="refused above the global batch")


def _add_training(made: argparse.ArgumentParser) -> None:
    add = made.add_argument_group("training").add_argument
    add("--num-epochs", type=int, default=80, help="the last epoch, those before --load-epoch too")
    add("--optimizer", default="sgd", help=f"one of {', '.join(OPTIMIZERS)}")
    add("--lr", type=float, default=0.1, help="learning rate, for a batch of some hundreds")
    add("--lr-factor", type=float, default=0.1, help="the rate is multiplied by it at each step")
    add("--lr-step-epochs", default="30,60", help="epochs, or a polynomial's power such as pow2")
    add("--warmup-epochs", type=int, default=0, help="epochs over which the rate rises to --lr")
    add("--warmup-strategy", default="linear", choices=STRATEGIES, help="how it rises")
    add("--initial-lr", type=float, default=0.0, help="where warm-up begins")
    add("--mom", type=float, default=0.9, help="momentum, for optimisers that have it")
    add("--wd", type=float, default=1e-4, help="weight decay")
    add("--val-freq", type=int, default=1, help="validate after every so many epochs")
    add("--top-k", type=int, default=0, help="validation says top-k accuracy too (0: no)")
    add("--loss", default="", help="validation says the loss too: ce, or nll")
    add("--stop-accuracy", type=float, default=1.0, help="end once validation is above this")


def _add_checkpoints(made: argparse.ArgumentParser) -> None:
    add = made.add_argument_group("checkpoints and looking inside").add_argument
    add("--model-prefix", "--model", default="", help="save the network after epochs")
    add("--save-period", type=int, default=1, help="after every so many of them")
    add("--load-epoch", type=int, default=0, help="begin with what was saved after that epoch")
    add("--disp-batches", type=int, default=20, help="say a line every so many batches")
    add("--monitor", type=int, default=0, help="print norms every so many batches (0: never)")
    add("--profile-worker-suffix", default="", help="profile this worker into rank<N>_SUFFIX")
    add("--profile-server-suffix", default="", help="profile server N into rank<N>_SUFFIX")


def add_data(made: argparse.ArgumentParser) -> None:
    """Where images are and how they are read."""
    add = made.add_argument_group("data").add_argument
    add("--num-examples", type=int, default=0, help="images an epoch (0: count --data-train)")
    add("--data-train", default="", help=DATA)
    add("--data-train-idx", default="", help="not needed: the .idx beside each .rec is found")
    add("--data-val", default="", help="the same for validation after each epoch")
    add("--data-val-idx", default="", help="not needed either")
    add("--data-nthreads", type=int, default=4, help="decoding threads")
    add("--rgb-mean", default="123.68,116.779,103.939", help="taken from each pixel")
    add("--rgb-std", default="1,1,1", help="each pixel is divided by it then")
    add("--benchmark", type=int, choices=(0, 1), default=0, help="1: synthetic data")
    add(
        "--costs",
        default="none",
        choices=COSTS,
        help="of --benchmark 1; upstream: copy the input, compute the accuracy and use the store "
        "of one device in each step, as the speed that upstream prints contains them",
    )
    add("--test-io", type=int, choices=(0, 1), default=0, help="1: only read data, no training")
    add("--bandwidth", type=int, choices=(0, 1), default=0, help="1: only push and pull, no data")
    add("--cold", type=int, choices=(0, 1), default=0, help="1: --test-io reads from the disk")


def _add_measuring(made: argparse.ArgumentParser) -> None:
    add = made.add_argument_group("measuring").add_argument
    add("--windows", type=int, default=0, help="measure so many windows at most (0: all epochs)")
    add("--precision", type=float, default=0.0, help="end once the rate is known to so much of it")
    add("--budget-seconds", type=float, default=0.0, help="measure so long at most (0: any time)")
    add("--warmup-windows", type=int, default=1, help="windows before them that do not count")
    add("--steps-per-window", type=int, default=0, help="0: 1 on CPU, 10 on GPU")
