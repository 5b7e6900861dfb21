"""A trial with some of its settings changed, as a person types them: 'kvstore=device env.X=1'."""

import dataclasses
import re
from typing import Any, get_args, get_origin

from bench.errors import SpecError, quoted, unknown
from bench.networks import named
from bench.secrets import masked_word
from bench.trial import FIELDS, Trial, make

# A comma or a space ends a setting where another begins, so that image_shape=3,64,64 is one.
_BETWEEN = re.compile(r"[,\s]+(?=[A-Za-z_][\w.]*=)")
_DERIVED = ("image_shape", "devices_per_worker", "devices_per_host", "steps_per_window")


def changed(trial: Trial, text: str) -> Trial:
    """The trial with FIELD=VALUE and env.NAME=VALUE of this text; what follows from them follows.

    Raises SpecError naming the setting that cannot be.
    """
    fields = _given(trial)
    for setting in filter(None, _BETWEEN.split(text.strip())):
        name, equals, value = setting.partition("=")
        if not equals:
            raise SpecError(f"expected FIELD=VALUE or env.NAME=VALUE, got {quoted(setting)}")
        if name.startswith("env."):
            fields["env"] = _with_variable(fields["env"], name.removeprefix("env."), value)
        elif name == "network":
            fields["network"], fields["num_layers"] = named(value)
        elif name in FIELDS and name != "env":
            fields[name] = _value(FIELDS[name].type, value)
        else:
            raise unknown("setting", name, [*(one for one in FIELDS if one != "env"), "env.NAME"])
    try:
        return make(fields)
    except SpecError as error:
        raise SpecError(f"{quoted(shown(text))}: {error}") from error


def shown(text: str) -> str:
    """The settings as they were typed, secrets masked."""
    return " ".join(map(masked_word, _BETWEEN.split(text.strip())))


def _given(trial: Trial) -> dict[str, Any]:
    """Its fields without those that follow from the others: another store has other workers."""
    fields = dataclasses.asdict(trial)
    for name in _DERIVED:
        fewer = {other: value for other, value in fields.items() if other != name}
        if make(fewer) == trial:
            fields = fewer
    return fields


def _with_variable(env: tuple[str, ...], name: str, value: str) -> tuple[str, ...]:
    others = (one for one in env if one.partition("=")[0] != name)
    return (*others, f"{name}={value}")


def _value(kind: Any, text: str) -> Any:
    """The text as a file's value of the field's type would be; `make` refuses what does not fit."""
    if get_origin(kind) is tuple:
        return [_value(get_args(kind)[0], part.strip()) for part in text.split(",") if part]
    if kind is str:
        return text
    if kind is bool:
        return {"true": True, "false": False}.get(text, text)
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
