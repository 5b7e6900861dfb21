"""The modes of a worker, and which of its options act in each."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

from bench.data.augmentation_options import AugmentationOptions, flag
from bench.errors import SpecError, error_line
from bench.settings.parts import PART_FIELDS

# Images per epoch of upstream's train_imagenet.py: the training images of ImageNet.
IMAGENET_IMAGES = 1_281_167


class Mode(Enum):
    """What a worker does; the value names it in error lines."""

    WINDOWS = "--benchmark 1 --windows"  # synthetic images, without epochs
    EPOCHS = "--benchmark 1"  # synthetic images, in epochs of --num-examples
    REAL = "training on --data-train"
    TEST_IO = "--test-io 1"
    BANDWIDTH = "--bandwidth 1"


_ALL = frozenset(Mode)
_TRAINING = frozenset({Mode.WINDOWS, Mode.EPOCHS, Mode.REAL})
_EPOCHS = frozenset({Mode.EPOCHS, Mode.REAL})
_READING = frozenset({Mode.REAL, Mode.TEST_IO})
_OF_TRIALS = {
    "synthetic": frozenset({Mode.WINDOWS, Mode.EPOCHS}),
    "real": frozenset({Mode.REAL}),
    "test-io": frozenset({Mode.TEST_IO}),
    "bandwidth": frozenset({Mode.BANDWIDTH}),
}
_NAMES = {
    _ALL: "engine benchmark test_io bandwidth batch_size gpus cpus expect_workers",
    _TRAINING: "initializer global_batch auto_batch macrobatch_size optimizer "
    "model_prefix load_epoch num_examples disp_batches monitor "
    "profile_worker_suffix profile_batches profile_server_suffix pretrained_model "
    "layer_before_fullc",
    _EPOCHS: "num_epochs lr_factor lr_step_epochs warmup_epochs warmup_strategy initial_lr "
    "save_period",
    frozenset({Mode.REAL}): "val_freq top_k loss data_val_idx",
    _READING: "data_train_idx "
    f"use_imagenet_data_augmentation {' '.join(one.name for one in fields(AugmentationOptions))}",
}
# Each option by its argparse name, with the modes in which it acts.
MODES_OF: dict[str, frozenset[Mode]] = {
    **{
        field.option: frozenset().union(*(_OF_TRIALS[mode] for mode in field.setting.modes))
        for field in PART_FIELDS.values()
        if field.option
    },
    **{name: modes for modes, names in _NAMES.items() for name in names.split()},
}
# The options that select the mode of a trial.
MODE_OPTIONS = {
    "synthetic": ("--benchmark=1",),
    "real": ("--data-train=.",),
    "test-io": ("--test-io=1", "--data-train=."),
    "bandwidth": ("--benchmark=1", "--bandwidth=1"),
}
# Options that act in training only if another option is given.
NEEDS = {
    **dict.fromkeys(("val_freq", "top_k", "loss", "stop_accuracy"), "data_val"),
    **dict.fromkeys(("warmup_strategy", "initial_lr"), "warmup_epochs"),
    **dict.fromkeys(("precision", "budget_seconds"), "windows"),
    "save_period": "model_prefix",
    "profile_batches": "profile_worker_suffix",
    "data_val_idx": "data_val",
    "gc_threshold": "gc_type",
}


def mode_of(typed: Mapping[str, Any]) -> Mode:
    """Return the mode that these typed options select."""
    if typed["bandwidth"]:
        return Mode.BANDWIDTH
    if typed["test_io"]:
        return Mode.TEST_IO
    if not typed["benchmark"]:
        return Mode.REAL
    return Mode.WINDOWS if typed["windows"] and not typed["num_examples"] else Mode.EPOCHS


@dataclass(frozen=True, kw_only=True)
class UselessOptions:
    """Given options without effect.

    `need` is the option that they need; '' if the mode has no use for them.
    """

    names: tuple[str, ...]
    need: str = ""


def unused(
    typed: Mapping[str, Any], given: Sequence[str], usual: Mapping[str, Any]
) -> UselessOptions:
    """Return the options among those `given` that have no effect.

    Options that switch something off never count; neither do defaults (`usual`) of options that
    need another one.
    """
    mode = mode_of(typed)
    on = [name for name in given if typed[name] not in (0, "", "none")]
    if found := tuple(name for name in on if mode not in MODES_OF[name]):
        return UselessOptions(names=found)
    for name in on if mode in _TRAINING else ():
        need = NEEDS.get(name, "")
        if need and typed[name] != usual[name] and typed[need] in (0, "", "none"):
            return UselessOptions(names=(name,), need=need)
    return UselessOptions(names=())


def given_names(made: argparse.ArgumentParser, argv: Sequence[str]) -> list[str]:
    """Return the argparse names of the options on a command line."""
    # argparse sets a default only if the namespace has no value.
    blank = argparse.Namespace(**dict.fromkeys(vars(made.parse_args([]))))
    return [name for name, value in vars(made.parse_args(argv, blank)).items() if value is not None]


def check_use(made: argparse.ArgumentParser, argv: Sequence[str], typed: Mapping[str, Any]) -> None:
    """Raise SpecError if an option on the command line has no effect.

    typed  the values of all options
    """
    mode = mode_of(typed)
    found = unused(typed, given_names(made, argv), vars(made.parse_args([])))
    if not found.names:
        return
    listed = ", ".join(map(flag, found.names))
    if found.need:
        raise SpecError(
            error_line(listed, expected=f"{flag(found.need)} with it", got="none", fix="Give it")
        )
    fix = f"Leave out {listed}"
    if mode is Mode.WINDOWS and all(Mode.EPOCHS in MODES_OF[name] for name in found.names):
        fix = f"{fix}, or give --num-examples N to have epochs"
    raise SpecError(error_line(mode.value, problem=f"has no use for {listed}", fix=fix))
