"""Options of one worker process, with the names and defaults of train_imagenet.py."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from bench.data import augmentation_options
from bench.data.augmentation_options import flag
from bench.engines.ddp import check_worker, checked_comm
from bench.errors import SpecError, error_line, is_whole, plain, quoted
from bench.kvstores import (
    check_arithmetic,
    check_bandwidth,
    checked_kvstore,
    find_kvstore,
)
from bench.networks import NETWORKS, named
from bench.networks.catalog import check_images, checked_layers
from bench.settings.modes import IMAGENET_IMAGES, Mode, check_use, mode_of
from bench.settings.parts import PART_FIELDS, add_options, add_other_options
from bench.training.optimizer import (
    INITIALIZERS,
    MOVES_BY_ITSELF,
    OPTIMIZERS,
    STRATEGIES,
    Epochs,
    checked_optimizer,
    epochs,
)
from im2rec_tools.options import ProgramParser

# What checks the communication method, by engine.
_COMMS = {"mxnet": checked_kvstore, "torch": checked_comm}
# Per device; no device has memory for more.
MOST_BATCH = 1 << 16


class _Parser(ProgramParser):
    def error(self, message: str) -> NoReturn:
        name = self.prog.rpartition(".")[2]
        raise SpecError(error_line(name, problem=message, fix=f"Run '{self.prog} --help'"))


def empty(program: str, description: str) -> argparse.ArgumentParser:
    """Return a parser without options that raises SpecError for a wrong command line."""
    return _Parser(
        prog=f"python -m bench.{program}",
        usage="%(prog)s [options]",
        description=description,
    )


def parser() -> argparse.ArgumentParser:
    """Return the parser of `python -m bench.train_imagenet`."""
    made = empty(
        "train_imagenet",
        "Train an image classifier as one worker and time each window. Exits with 1 if training "
        "fails, 2 if the options or the data are wrong.",
    )
    add_all(made)
    return made


def add_all(made: argparse.ArgumentParser) -> None:
    """Add every option of a worker."""
    _add_network(made)
    _add_batch(made)
    _add_training(made)
    _add_checkpoints(made)
    add_data(made)
    augmentation_options.add_options(made)
    _add_measuring(made)
    add_other_options(made)


def _add_network(made: argparse.ArgumentParser) -> None:
    add = made.add_argument_group("Network").add_argument
    add("--engine", default="mxnet", choices=tuple(_COMMS), help="Framework that trains")
    add_options(add, "network", "num_layers", "image_shape", "num_classes")
    text = "Initializer of all weights; default is upstream's choice for the network"
    add("--initializer", default="default", choices=INITIALIZERS, help=text)
    add_options(add, "dtype", "seed")


def _add_batch(made: argparse.ArgumentParser) -> None:
    group = made.add_argument_group("Devices and batch")
    add = group.add_argument
    batch = group.add_mutually_exclusive_group().add_argument
    text = "Images per step of this worker, over all its devices"
    batch("--batch-size", type=int, default=128, metavar="N", help=text)
    text = "Images per step of all workers together; 0 uses --batch-size"
    batch("--global-batch", type=int, default=0, metavar="N", help=text)
    text = "Use the largest batch that fits, at most N images per device; 0 uses --batch-size"
    batch(
        "--auto-batch",
        type=int,
        nargs="?",
        const=MOST_BATCH,
        default=0,
        metavar="N",
        help=text,
    )
    add("--gpus", default="", metavar="LIST", help="Indexes of the GPUs, such as 0,1,2 [CPU]")
    text = "Number of CPU devices if --gpus is empty"
    add("--cpus", type=int, default=1, metavar="N", help=text)
    add_options(add, "kvstore")
    text = "Fail unless the job has this many workers; 0 accepts any number"
    add("--expect-workers", type=int, default=0, metavar="N", help=text)
    add_options(add, "gc_type", "gc_threshold")
    text = "Upstream's macro batch of lbsgd; at most the global batch"
    add("--macrobatch-size", type=int, default=0, metavar="N", help=text)


def _add_training(made: argparse.ArgumentParser) -> None:
    add = made.add_argument_group("Training").add_argument
    add_options(add, "num_epochs")
    add("--optimizer", default="sgd", metavar="NAME", help=f"Optimizer: {', '.join(OPTIMIZERS)}")
    add_options(add, "lr")
    text = "Multiply the learning rate by this at each of --lr-step-epochs"
    add("--lr-factor", type=float, default=0.1, metavar="FACTOR", help=text)
    text = "Epochs at which the learning rate changes, or the power of a polynomial decay: pow2"
    add("--lr-step-epochs", default="30,60", metavar="LIST", help=text)
    text = "Epochs over which the learning rate rises to --lr"
    add("--warmup-epochs", type=int, default=0, metavar="N", help=text)
    text = "Shape of the rise during --warmup-epochs"
    add("--warmup-strategy", default="linear", choices=STRATEGIES, help=text)
    text = "Learning rate at the start of the warm-up"
    add("--initial-lr", type=float, default=0.0, metavar="RATE", help=text)
    add_options(add, "momentum", "weight_decay")
    add("--val-freq", type=int, default=1, metavar="N", help="Validate after every N epochs")
    text = "Report top-K accuracy at validation too; 0 turns it off"
    add("--top-k", type=int, default=0, metavar="K", help=text)
    text = "Report these losses at validation too: ce, nll or ce,nll [none]"
    add("--loss", default="", metavar="LIST", help=text)
    add_options(add, "stop_accuracy")


def _add_checkpoints(made: argparse.ArgumentParser) -> None:
    add = made.add_argument_group("Checkpoints and debugging").add_argument
    text = "Save the network to files with this prefix [not saved]"
    add("--model-prefix", "--model", default="", metavar="PREFIX", help=text)
    add("--save-period", type=int, default=1, metavar="N", help="Save after every N epochs")
    text = "Start from the checkpoint of this epoch; 0 starts with new weights"
    add("--load-epoch", type=int, default=0, metavar="N", help=text)
    text = "Print a line every N batches"
    add("--disp-batches", type=int, default=20, metavar="N", help=text)
    text = "Print the RMS of weights, gradients and scores every N batches; 0 turns it off"
    add("--monitor", type=int, default=0, metavar="N", help=text)
    text = "Write a profile of this worker to rank<N>_SUFFIX [not profiled]"
    add("--profile-worker-suffix", default="", metavar="SUFFIX", help=text)
    text = "Profile only the batches A to B of the worker, counted from 1 [all]"
    add("--profile-batches", default="", metavar="A:B", help=text)
    text = "Write a profile of server N to rank<N>_SUFFIX [not profiled]"
    add("--profile-server-suffix", default="", metavar="SUFFIX", help=text)


def add_data(made: argparse.ArgumentParser) -> None:
    """Add the options for images and how they are read."""
    add = made.add_argument_group("Data").add_argument
    add_options(add, "num_examples", "data_train")
    text = "Accepted for upstream's command lines; the .idx file beside each .rec is used [none]"
    add("--data-train-idx", default="", metavar="FILE", help=text)
    add_options(add, "data_val")
    add("--data-val-idx", default="", metavar="FILE", help="The same for --data-val [none]")
    add_options(add, "data_nthreads", "prefetch_buffer", "rgb_mean", "rgb_std")
    add("--benchmark", type=int, choices=(0, 1), default=0, help="Train on synthetic data")
    add_options(add, "costs")
    text = "Benchmark the input pipeline without training"
    add("--test-io", type=int, choices=(0, 1), default=0, help=text)
    text = "Push and pull arrays only, without data"
    add("--bandwidth", type=int, choices=(0, 1), default=0, help=text)
    add_options(add, "cold")


def _add_measuring(made: argparse.ArgumentParser) -> None:
    add = made.add_argument_group("Measurement").add_argument
    add_options(add, "windows", "precision", "budget_seconds", "warmup_windows", "steps_per_window")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of one worker; `batch_size` is this worker's, over all its devices.

    global_batch  images per step of all workers together (0: each has its own `batch_size`)
    lr_epochs     when the learning rate changes
    augmentation  random changes of training images
    load_epoch    the checkpoint of `model_prefix` to start from (0: none)
    auto_batch    find the largest batch per device, up to this (0: `batch_size` is given)
    costs         extra costs of a step on synthetic data: "none" or "upstream"
    pretrained    checkpoint whose layers up to `layer_before_fullc` are kept (fine_tune)
    """

    network: str
    num_layers: int | None
    image_shape: tuple[int, int, int]
    num_classes: int
    initializer: str
    num_examples: int
    batch_size: int
    global_batch: int
    gpus: tuple[int, ...]
    cpus: int
    kv_store: str
    expect_workers: int
    gc_type: str
    gc_threshold: float
    num_epochs: int
    optimizer: str
    lr: float
    lr_epochs: Epochs
    mom: float
    wd: float
    data_train: str
    data_val: str
    data_nthreads: int
    rgb_mean: tuple[float, float, float]
    rgb_std: tuple[float, float, float]
    augmentation: augmentation_options.AugmentationOptions
    benchmark: bool
    test_io: bool
    disp_batches: int
    monitor: int
    profile_worker_suffix: str
    profile_server_suffix: str
    dtype: str
    model_prefix: str
    save_period: int
    load_epoch: int
    val_freq: int
    top_k: int
    loss: tuple[str, ...]
    windows: int
    warmup_windows: int
    steps_per_window: int
    precision: float
    budget_seconds: float
    stop_accuracy: float
    seed: int
    pretrained: str = ""
    pretrained_epoch: int = 0
    layer_before_fullc: str = ""
    engine: str = "mxnet"
    channels_last: bool = False
    compile: bool = False
    cold: bool = False
    bandwidth: bool = False
    costs: str = "none"
    auto_batch: int = 0
    prefetch_buffer: int = 2
    profile_batches: tuple[int, int] | None = None

    @property
    def devices(self) -> int:
        """Number of devices of this worker."""
        return len(self.gpus) or self.cpus

    @property
    def has_epochs(self) -> bool:
        """Whether training counts epochs; synthetic images with --windows alone have none."""
        return mode_of(vars(self)) in {Mode.EPOCHS, Mode.REAL}

    @property
    def array_dtype(self) -> str:
        """Data type of images and weights; bfloat16 applies only to the computation."""
        return "float32" if self.dtype == "bfloat16" else self.dtype


def _whole_numbers(text: str, option: str, count: int | None = None) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(is_whole(part) for part in parts) or count not in {None, len(parts)} or not parts:
        wanted = f"{count} whole numbers" if count else "whole numbers"
        raise SpecError(error_line(option, expected=f"{wanted} joined by commas", got=quoted(text)))
    return tuple(int(part) for part in parts)


def _numbers(text: str, option: str, count: int) -> tuple[float, ...]:
    try:
        found = tuple(float(plain(part)) for part in text.split(",") if part.strip())
    except ValueError:
        found = ()
    if len(found) != count:
        raise SpecError(
            error_line(option, expected=f"{count} numbers joined by commas", got=quoted(text))
        )
    return found


def _image_shape(text: str | None, network: str) -> tuple[int, int, int]:
    if text is None:
        return NETWORKS[network].image_shape
    channels, height, width = _whole_numbers(text, "--image-shape", 3)
    if min(channels, height, width) < 1:
        raise SpecError(
            error_line("--image-shape", expected="numbers of 1 or more", got=quoted(text))
        )
    return channels, height, width


def parse(argv: Sequence[str]) -> Options:
    """Parse and validate a command line; raises SpecError with one line for the user."""
    made = parser()
    return used(made, argv, given(made, argv))


def used(made: argparse.ArgumentParser, argv: Sequence[str], typed: dict[str, Any]) -> Options:
    """Build the options; SpecError if one is invalid or a given one has no effect."""
    options = options_of(typed)
    check_use(made, argv, typed)
    return options


def given(made: argparse.ArgumentParser, argv: Sequence[str]) -> dict[str, Any]:
    """Return the typed options with defaults and any requested ImageNet augmentation."""
    values = vars(made.parse_args(argv))
    if values["engine"] == "torch":
        made.set_defaults(kv_store="none")
        values = vars(made.parse_args(argv))
    if values.get("use_imagenet_data_augmentation"):
        made.set_defaults(**augmentation_options.IMAGENET)
        values = vars(made.parse_args(argv))
    return values


def options_of(typed: dict[str, Any]) -> Options:
    """Build the options from typed values; raises SpecError with the invalid option."""
    network, layers = named(typed["network"])
    if typed["num_layers"] is not None:
        layers = checked_layers(network, typed["num_layers"], "--num-layers")
    gpus = _whole_numbers(typed["gpus"], "--gpus") if typed["gpus"] else ()
    plain = {name: value for name, value in typed.items() if name in Options.__dataclass_fields__}
    _check_needless(typed)
    options = Options(
        **{
            **plain,
            "network": network,
            "num_layers": layers,
            "image_shape": _image_shape(typed["image_shape"], network),
            "gpus": gpus,
            "kv_store": _COMMS[typed["engine"]](typed["kv_store"]),
            "optimizer": checked_optimizer(typed["optimizer"]),
            "lr_epochs": _lr_epochs(typed),
            "rgb_mean": _numbers(typed["rgb_mean"], "--rgb-mean", 3),
            "rgb_std": _numbers(typed["rgb_std"], "--rgb-std", 3),
            "augmentation": augmentation_options.augmentation_of(typed),
            "loss": _losses(typed["loss"]),
            "profile_batches": _batches(typed["profile_batches"]),
            "num_examples": _epoch_examples(typed),
            "benchmark": bool(typed["benchmark"]),
            "test_io": bool(typed["test_io"]),
            **{name: bool(typed.get(name)) for name in ("cold", "bandwidth", "channels_last")},
            "compile": bool(typed.get("compile")),
            "steps_per_window": typed["steps_per_window"] or (10 if gpus else 1),
        }
    )
    check(options)
    return options


def _lr_epochs(typed: dict[str, Any]) -> Epochs:
    if typed["warmup_strategy"] == "lars" and typed["optimizer"] != "lbsgd":
        raise SpecError(
            error_line(
                "--warmup-strategy lars", expected="--optimizer lbsgd", got=typed["optimizer"]
            )
        )
    has_epochs = mode_of(typed) in {Mode.EPOCHS, Mode.REAL}
    if typed["warmup_epochs"] >= typed["num_epochs"] > 0 and has_epochs:
        raise SpecError(
            error_line(
                "--warmup-epochs",
                expected=f"fewer than --num-epochs {typed['num_epochs']}",
                got=typed["warmup_epochs"],
                problem="the learning rate would never reach --lr",
            )
        )
    return epochs(
        typed["lr_step_epochs"],
        factor=typed["lr_factor"],
        warmup=typed["warmup_epochs"],
        strategy=typed["warmup_strategy"],
        initial_lr=typed["initial_lr"],
    )


def _batches(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    first, _, last = text.partition(":")
    if not (is_whole(first) and is_whole(last) and 1 <= int(first) <= int(last)):
        raise SpecError(
            error_line(
                "--profile-batches",
                expected="A:B with 1 <= A <= B",
                got=quoted(text),
                fix="Give batches such as 10:12",
            )
        )
    return int(first), int(last)


def _losses(text: str) -> tuple[str, ...]:
    names = {"ce": "ce", "nll": "nll", "nll-loss": "nll", "nll_loss": "nll"}
    parts = [part.strip() for part in text.split(",")] if text else []
    if not names.keys() >= set(parts):
        raise SpecError(error_line("--loss", expected="ce, nll or ce,nll", got=quoted(text)))
    return tuple(dict.fromkeys(names[part] for part in parts))


def _epoch_examples(typed: dict[str, Any]) -> int:
    """Return the images per epoch; 0 to count those of --data-train."""
    wanted: int = typed["num_examples"]
    return wanted or (IMAGENET_IMAGES if mode_of(typed) is Mode.EPOCHS else 0)


def _check_needless(typed: dict[str, Any]) -> None:
    """Reject values of upstream's options that this job cannot honor."""
    for name in ("data_train", "data_val"):
        index = typed[f"{name}_idx"]
        if index and typed[name] and Path(index) != Path(typed[name]).with_suffix(".idx"):
            raise SpecError(
                error_line(
                    f"{flag(name)}-idx",
                    expected="the .idx beside the .rec file",
                    got=quoted(index),
                    fix="Move it there and leave out this option",
                )
            )
    whole = typed["global_batch"] or typed["batch_size"]
    if typed["macrobatch_size"] > whole:
        raise SpecError(
            error_line(
                "--macrobatch-size",
                expected=f"at most the batch of {whole}",
                got=typed["macrobatch_size"],
                problem="MXNet's lbsgd would sum overwritten gradients",
                fix="Use --global-batch of that size",
            )
        )


def check(options: Options) -> None:
    """Validate the options, each and in combination; raises SpecError."""
    _check_settings(options)
    for name in ("cpus", "disp_batches", "save_period", "val_freq"):
        _check_least(options, name, 1)
    for name in ("global_batch", "auto_batch", "monitor", "load_epoch", "top_k"):
        _check_least(options, name, 0)
    if (
        not all(abs(one) < 1e30 for one in (*options.rgb_mean, *options.rgb_std))
        or 0 in options.rgb_std
    ):
        raise SpecError(
            error_line("--rgb-mean, --rgb-std", expected="finite numbers, and --rgb-std without 0")
        )
    if not 0 <= options.stop_accuracy <= 1:
        expected, fix = "a fraction from 0 to 1", "Give 0.9 for 90 %"
        got = options.stop_accuracy
        raise SpecError(error_line("--stop-accuracy", expected=expected, got=got, fix=fix))
    check_arithmetic(options) if options.engine == "mxnet" else check_worker(options)
    _check_images(options)
    _check_batch(options)
    _check_training(options)
    if options.costs != "none" and (not options.benchmark or options.bandwidth):
        raise SpecError(
            error_line(
                f"--costs {options.costs}",
                expected="training on synthetic images",
                fix="Give --benchmark 1 and leave out --bandwidth",
            )
        )
    if options.bandwidth and not find_kvstore(options.kv_store).servers:
        raise SpecError(
            error_line(
                "--bandwidth 1",
                expected="a kvstore with servers (dist_...)",
                got=quoted(options.kv_store),
            )
        )
    if options.bandwidth:
        check_bandwidth(options.kv_store)
    if options.cold and not options.test_io:
        raise SpecError(
            error_line(
                "--cold 1", problem="expected --test-io 1; training reads its files once per epoch"
            )
        )
    if options.test_io and options.benchmark:
        raise SpecError(
            error_line(
                "--test-io 1", expected="real data", got="--benchmark 1", fix="Give one of them"
            )
        )
    if not options.benchmark and not options.data_train:
        raise SpecError(
            error_line(
                "--data-train", expected="a .rec file or folder (or --benchmark 1)", got="none"
            )
        )
    if options.bandwidth and not options.windows:
        raise SpecError(
            error_line("--bandwidth 1", problem="transfers have no epochs", fix="Give --windows N")
        )


def _check_settings(options: Options) -> None:
    for field in PART_FIELDS.values():
        value = getattr(options, field.option) if field.option in vars(options) else None
        if value is not None and (problem := field.setting.problem(value)):
            raise SpecError(error_line(field.setting.flag, problem=problem))


def _check_images(options: Options) -> None:
    if not options.test_io:
        check_images(options.network, options.num_layers, options.image_shape)
    if options.image_shape[0] == 1 and options.augmentation.color_changes:
        raise SpecError(
            error_line(
                flag(options.augmentation.color_changes[0]),
                problem="gray images (--image-shape 1,...) have no color to change",
                fix="Leave it out",
            )
        )


def _check_least(options: Options, name: str, least: int) -> None:
    value = getattr(options, name)
    if not value >= least:
        raise SpecError(error_line(flag(name), expected=f"{least} or more", got=value))


def _check_batch(options: Options) -> None:
    if options.global_batch or options.auto_batch:
        return  # each worker's batch is known only after the rendezvous or the search
    if options.batch_size < options.devices or options.batch_size % options.devices:
        raise SpecError(
            error_line(
                "--batch-size",
                expected=f"a positive multiple of this worker's {options.devices} device"
                f"{'s' * (options.devices > 1)}",
                got=options.batch_size,
            )
        )


def _check_training(options: Options) -> None:
    if options.load_epoch and not options.model_prefix:
        raise SpecError(
            error_line("--load-epoch", expected="--model-prefix, the location of the checkpoint")
        )
    if options.load_epoch >= options.num_epochs and options.has_epochs:
        raise SpecError(
            error_line(
                "--num-epochs",
                expected=f"more than --load-epoch {options.load_epoch}",
                got=options.num_epochs,
                fix="Increase --num-epochs, which counts from epoch 0",
            )
        )
    if options.top_k > options.num_classes:
        raise SpecError(error_line("--top-k", expected="at most --num-classes", got=options.top_k))
    if find_kvstore(options.kv_store).spans and options.optimizer in MOVES_BY_ITSELF:
        on_servers = "draws noise on the servers, so that workers could not agree when to stop"
        by_each = "draws noise, so that the workers would have different weights"
        raise SpecError(
            error_line(
                f"--optimizer {options.optimizer}",
                problem=on_servers if find_kvstore(options.kv_store).servers else by_each,
                fix="Use another optimizer, or kvstore 'device'",
            )
        )
    if options.profile_server_suffix and not find_kvstore(options.kv_store).servers:
        raise SpecError(
            error_line(
                "--profile-server-suffix",
                expected="a kvstore with servers (dist_...)",
                got=f"--kv-store {options.kv_store}",
            )
        )
    if "/" in options.profile_server_suffix:
        raise SpecError(
            error_line("--profile-server-suffix", expected="a plain file name, without a folder")
        )
