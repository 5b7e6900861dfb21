"""Profiles as MXNet writes them."""

import json
from typing import Any

# MXNet's process number of its domain of operators; too large for a browser.
OPERATOR = 3060606181218273969


def event(phase: str, ts: float = 0, **fields: Any) -> dict[str, Any]:
    """Return an event of one operator on the first device."""
    return {"name": "dot", "cat": "operator", "ph": phase, "ts": ts, "pid": 0, "tid": 7} | fields


def profile(*events: object, host: str = "") -> bytes:
    """Return a profile with these events and the names of its devices."""
    names = [
        {"ph": "M", "pid": number, "name": "process_name", "args": {"name": name}}
        for number, name in ((0, "cpu/0"), (OPERATOR, "operator"))
    ]
    values: dict[str, Any] = {"traceEvents": [*names, *events], "displayTimeUnit": "ms"}
    if host:
        values["otherData"] = {"host": host}
    return json.dumps(values).encode()
