"""The machine of a run in one line, as figures and pages name it."""

from collections.abc import Mapping
from typing import Any


def machine(environment: Mapping[str, Any]) -> str:
    """Hardware and software in one line."""
    parts = (
        environment.get("processor"),
        environment.get("cores") and f"{environment['cores']} cores",
        environment.get("memory_gib") and f"{environment['memory_gib']} GiB",
        environment.get("mxnet") and f"MXNet {environment['mxnet']}",
        environment.get("python") and f"Python {environment['python']}",
    )
    return ", ".join(str(part) for part in parts if part)
