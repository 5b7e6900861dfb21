"""Commands of the controller: programs on hosts parse and check them."""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import json

from launch.remote.errors import ProtocolError

TYPE_CHECKING = False  # as in launch/remote/lease.py
if TYPE_CHECKING:
    from typing import Any

_MOST = 1 << 63
NOTHING = type(None)


def parsed(line: str | bytes, shapes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Parse a line as one of these commands with its fields.

    ProtocolError if it is none.

    The shape of a field is a type, [shape] for a list, {str: shape} for an object, (shape, ...)
    for a tuple, or a set of alternatives. A field that may be None may be absent.
    """
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise ProtocolError(f"expected a command as JSON, got {_shown(line)}") from None
    do = message.get("do") if isinstance(message, dict) else None
    if not isinstance(do, str) or do not in shapes:
        raise ProtocolError(f"expected one of the commands {', '.join(shapes)}, got {_shown(line)}")
    for name, shape in shapes[do].items():
        if not _fits(message.get(name), shape):
            raise ProtocolError(f"{do}: expected a valid {name}, got {_shown(message.get(name))}")
    found: dict[str, Any] = message
    return found


def _fits(value: Any, shape: Any) -> bool:
    if isinstance(shape, type):
        whole = shape is not int or (type(value) is int and -_MOST <= value < _MOST)
        return isinstance(value, shape) and whole and not (shape is str and "\0" in str(value))
    if isinstance(shape, set):
        return any(_fits(value, one) for one in shape)
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(_fits(one, shape[str]) for one in value.values())
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(one, shape[0]) for one in value)
    return isinstance(value, list) and len(value) == len(shape) and all(map(_fits, value, shape))


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    text = value if isinstance(value, str) else repr(value)
    return ascii(text[:60])
