"""The fields of all parts of a trial by stored name, and a worker's options for them."""

import argparse
from collections.abc import Callable
from typing import Any

from bench.engines.options import FakeOptions, MxnetOptions
from bench.settings.declaration import Field, fields_of
from bench.settings.parts import Data, Layout, Measurement, Model, Training

# The attributes of a trial that are parts, in the order of records.
PARTS: dict[str, type] = {
    "model": Model,
    "layout": Layout,
    "training": Training,
    "measuring": Measurement,
    "data": Data,
    "mxnet": MxnetOptions,
    "fake": FakeOptions,
}
PART_FIELDS: dict[str, Field] = {
    field.name: field for name, part in PARTS.items() for field in fields_of(part, name)
}


def add_options(add: Callable[..., Any], *names: str) -> None:
    """The worker's options for these settings, by `add`, an add_argument of argparse."""
    for name in names:
        known, kind = PART_FIELDS[name].setting, PART_FIELDS[name].type
        default = PART_FIELDS[name].default if known.typed is ... else known.typed
        choices: tuple[Any, ...] = known.choices
        if kind is bool:
            kind, default, choices = int, int(default), (0, 1)
        elif isinstance(default, tuple):
            default = ",".join(f"{one:g}" for one in default)
        plain = int if kind == int | None else kind if kind in {int, float} else None
        add(known.flag, type=plain, default=default, choices=choices or None, help=known.help)


def add_other_options(made: argparse.ArgumentParser) -> None:
    """The options for all settings of which the parser has none."""
    there = vars(made.parse_args([]))
    others = [name for name, one in PART_FIELDS.items() if one.option and one.option not in there]
    if others:
        add_options(made.add_argument_group("other settings").add_argument, *others)
