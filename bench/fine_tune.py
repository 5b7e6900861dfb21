"""Train a checkpoint with a new last layer; replaces upstream's fine-tune.py.

    python -m bench.fine_tune --pretrained-model PREFIX --load-epoch 8 --num-classes 10 \\
        --data-train train --data-val val --model-prefix TUNED
    python -m bench.fine_tune --model-prefix TUNED --load-epoch 3 --num-epochs 9 \\
        --data-train train --data-val val

Takes the options of bench.train_imagenet except --network. The second command continues the first:
without --pretrained-model, --load-epoch is an epoch of --model-prefix.
"""

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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

from bench.data import input_format, shard_checks
from bench.errors import SpecError, error_line
from bench.train_imagenet import main
from bench.training.options import Options, add_all, empty, given, used
from im2rec_tools.terminal import echo

_DETERMINED = "the checkpoint determines the network"
# Options of training that have no meaning here, with the problem and the fix.
_REJECTED = {
    "--network": (_DETERMINED, "Leave it out"),
    "--num-layers": (_DETERMINED, "Leave it out"),
    "--auto-batch": (_DETERMINED, "Give --batch-size"),
    "--engine": ("MXNet alone fine-tunes", "Leave it out"),
}
# Upstream's defaults for a network with trained features.
_DEFAULTS = {"num_epochs": 30, "lr": 0.01, "lr_step_epochs": "20", "wd": 0.0, "mom": 0.0}


def parser() -> argparse.ArgumentParser:
    """Return the parser of `python -m bench.fine_tune`."""
    made = empty(
        "fine_tune",
        "Train a checkpoint with a new last layer. The checkpoint determines the network; "
        "--network and --auto-batch are rejected. Without --pretrained-model, continue the "
        "fine-tuning of --model-prefix after --load-epoch.",
    )
    made.conflict_handler = "resolve"  # some options have another meaning here, or none
    add_all(made)
    made.set_defaults(**_DEFAULTS, image_shape="3,224,224")
    add = made.add_argument_group("Fine-tuning").add_argument
    for option in _REJECTED:
        add(option, nargs="?", help=argparse.SUPPRESS)
    text = "Checkpoint to start from: PREFIX-symbol.json, PREFIX-N.params [none: continue]"
    add("--pretrained-model", default="", metavar="PREFIX", help=text)
    text = "Epoch of the checkpoint to start from, or to continue [the newest to start from]"
    add("--load-epoch", type=int, metavar="N", help=text)
    text = "Epochs of the fine-tuning; those of --pretrained-model do not count"
    add("--num-epochs", type=int, default=_DEFAULTS["num_epochs"], metavar="N", help=text)
    text = "Last layer to keep [the input of the last fully connected layer]"
    add("--layer-before-fullc", default="", metavar="LAYER", help=text)
    return made


def parse(argv: Sequence[str]) -> Options:
    """Parse and validate the options; SpecError without a checkpoint."""
    made = parser()
    typed = given(made, argv)
    named = input_format.given_options(argv)
    for option, (problem, fix) in _REJECTED.items():
        if option in named:
            raise SpecError(error_line(option, problem=problem, fix=fix))
    # A network that accepts any image, and the defaults of the other rejected options.
    typed |= {"network": "tiny", "auto_batch": 0, "engine": "mxnet"}
    prefix, target = typed["pretrained_model"], typed["model_prefix"]
    if not prefix:
        _check_continued(typed)
    elif target and Path(prefix).absolute() == Path(target).absolute():
        problem = "would replace the checkpoints of --pretrained-model"
        fix = "Name another prefix"
        if input_format.is_fine_tuned(prefix):
            fix += ", or leave out --pretrained-model to continue its fine-tuning"
        raise SpecError(error_line("--model-prefix", problem=problem, fix=fix))
    start = prefix or target
    settled = input_format.fill_from_checkpoint(typed, argv, start)
    notes = shard_checks.fill_from_shards(typed, [*argv, *settled], (3, 224, 224))
    if note := input_format.assumption_note(typed, argv, start):
        echo(note, err=True)
    if not prefix:
        fix = "For other classes, give --pretrained-model and another --model-prefix"
        shard_checks.check_checkpoint_classes("--data-train", typed["data_train"], target, fix)
    epoch = typed["load_epoch"]
    epoch = input_format.newest_epoch(start) if epoch is None else epoch
    typed["load_epoch"] = 0 if prefix else epoch
    if not target:
        echo("note: the weights are not saved; --model-prefix PREFIX saves them", err=True)
    options = used(made, argv, typed)
    notes.append(shard_checks.check_validation(options))
    echo(*filter(None, notes), err=True)
    return dataclasses.replace(options, pretrained=start, pretrained_epoch=epoch)


def _check_continued(typed: dict[str, Any]) -> None:
    """Raise SpecError unless these options name a fine-tuned checkpoint to continue."""
    prefix = typed["model_prefix"]
    if not (prefix and typed["load_epoch"]):
        expected = "the prefix of a checkpoint"
        fix = "Give it, or --model-prefix and --load-epoch of a fine-tuning to continue"
        raise SpecError(error_line("--pretrained-model", expected=expected, got="none", fix=fix))
    if Path(f"{prefix}-symbol.json").is_file() and not input_format.is_fine_tuned(prefix):
        problem = "was not fine-tuned, so there is nothing to continue"
        fix = f"Give --pretrained-model {prefix} and another --model-prefix"
        raise SpecError(error_line(f"--model-prefix {prefix}", problem=problem, fix=fix))
    if typed["layer_before_fullc"]:
        problem = "the checkpoint to continue determines it"
        raise SpecError(error_line("--layer-before-fullc", problem=problem, fix="Leave it out"))


if __name__ == "__main__":
    main(parse)
