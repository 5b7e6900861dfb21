"""Train a checkpoint with a new last layer; replaces upstream's fine-tune.py.

    python -m bench.fine_tune --pretrained-model PREFIX --load-epoch 8 --num-classes 10 \\
        --data-train train --data-val val

Takes the options of bench.train_imagenet except --network; --load-epoch is the checkpoint's epoch.
"""

import argparse
import dataclasses
import sys
from collections.abc import Sequence

if not __package__:
    print(
        "error: bench/fine_tune.py: cannot run as a script. "
        "Run 'python -m bench.fine_tune ...' in the checkout",
        file=sys.stderr,
    )
    raise SystemExit(2)
if __name__ == "__main__":
    from bench.errors import check_python

    check_python("bench.fine_tune")

from bench.data import input_format
from bench.errors import SpecError, error_line
from bench.train_imagenet import main
from bench.training.options import Options, add_all, empty, given, used
from im2rec_tools.terminal import echo

# Upstream's defaults for a network with trained features.
_DEFAULTS = {"num_epochs": 30, "lr": 0.01, "lr_step_epochs": "20", "wd": 0.0, "mom": 0.0}


def parser() -> argparse.ArgumentParser:
    """Return the parser of `python -m bench.fine_tune`."""
    made = empty(
        "fine_tune",
        "Train a checkpoint with a new last layer. The checkpoint determines the network; "
        "--network and --auto-batch are rejected.",
    )
    add_all(made)
    made.set_defaults(**_DEFAULTS, image_shape="3,224,224")
    add = made.add_argument_group("Fine-tuning").add_argument
    text = "Checkpoint to start from: PREFIX-symbol.json, PREFIX-N.params [required]"
    add("--pretrained-model", default="", metavar="PREFIX", help=text)
    text = "Last layer to keep [the input of the last fully connected layer]"
    add("--layer-before-fullc", default="", metavar="LAYER", help=text)
    return made


def parse(argv: Sequence[str]) -> Options:
    """Parse and validate the options; SpecError without a checkpoint."""
    made = parser()
    typed = given(made, argv)
    if any(one.partition("=")[0] == "--network" for one in argv):
        raise SpecError(
            error_line("--network", problem="--pretrained-model determines it", fix="Leave it out")
        )
    if not typed["pretrained_model"]:
        raise SpecError(
            error_line("--pretrained-model", expected="the prefix of a checkpoint", got="none")
        )
    if typed["auto_batch"]:
        raise SpecError(
            error_line(
                "--auto-batch", expected="a network by name", fix="Use 'python -m bench.auto_batch'"
            )
        )
    prefix = typed["pretrained_model"]
    settled = input_format.fill_from_checkpoint(typed, argv, prefix)
    input_format.fill_from_shards(typed, [*argv, *settled], (3, 224, 224))
    epoch, typed["load_epoch"] = typed["load_epoch"], 0
    if "--load-epoch" not in input_format.given_options(argv):
        epoch = input_format.newest_epoch(prefix)
    if not typed["model_prefix"]:
        echo("note: the weights are not saved; --model-prefix PREFIX saves them", err=True)
    return dataclasses.replace(
        used(made, argv, typed), pretrained=typed["pretrained_model"], pretrained_epoch=epoch
    )


if __name__ == "__main__":
    main(parse)
