"""Digests of graphs: operators, their parameters and inputs, but no names.

Two definitions of one network have the same digest: parameters at their default, and those that do
not change a result on any device, are left out or filled in.
"""

import hashlib
import json
from typing import Any

_DEFAULTS: dict[str, dict[str, object]] = {
    "BatchNorm": {"eps": 0.001, "momentum": 0.9, "fix_gamma": "True", "use_global_stats": "False"},
    "Concat": {"dim": "1"},
    "Convolution": {"stride": "(1, 1)", "pad": "(0, 0)", "num_group": "1", "no_bias": "False"},
    "FullyConnected": {"no_bias": "False"},
    "Pooling": {
        **{"stride": "(1, 1)", "pad": "(0, 0)", "global_pool": "False"},
        **{"pooling_convention": "valid", "count_include_pad": "True"},
    },
}
# The axes are MXNet's default ones; a full connection and Gluon flatten by themselves.
_LEFT_OUT = {"axes", "axis", "cudnn_off", "dilate", "flatten", "layout", "num_args", "workspace"}


def graph_digest(symbol: Any) -> str:
    """Return the first 12 digits of SHA-256 over the graph's nodes in their order."""
    kept: list[object] = []
    place: dict[int, int] = {}
    for number, node in enumerate(json.loads(symbol.tojson())["nodes"]):
        inputs = [place[one[0]] for one in node["inputs"]]
        if node["op"] == "Flatten":
            place[number] = inputs[0]
            continue
        place[number] = len(kept)
        kept.append([node["op"], _parameters(node), inputs])
    return hashlib.sha256(json.dumps(kept).encode()).hexdigest()[:12]


def _parameters(node: dict[str, Any]) -> list[tuple[str, object]]:
    if node["op"] == "null":
        return []
    found = _DEFAULTS.get(node["op"], {}) | {
        name: value
        for name, value in node.get("attrs", {}).items()
        if name not in _LEFT_OUT and not name.startswith("__")
    }
    if found.get("global_pool") == "True":
        found = {name: found[name] for name in ("global_pool", "pool_type")}
    return sorted((name, _number(value)) for name, value in found.items())


def _number(value: object) -> object:
    try:
        return f"{float(str(value)):.6g}"
    except ValueError:
        return value
