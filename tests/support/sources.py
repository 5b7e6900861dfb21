"""The modules of the checkout, their imports, and a copy of the checkout."""

import ast
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from launch.install import code_files
from tests.support.paths import ROOT

# Who may import whom of ours.
BELOW: dict[str, set[str]] = {
    "im2rec_tools": set(),
    "bench": {"im2rec_tools"},
    "results": {"bench", "im2rec_tools"},
    "launch": {"bench", "im2rec_tools", "results"},
    "plots": {"bench", "im2rec_tools", "results"},
    "tasks": {"bench", "im2rec_tools", "launch", "plots", "results"},
}


def modules() -> list[Path]:
    return [path for name in BELOW for path in sorted((ROOT / name).rglob("*.py"))]


def imports(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def copied(to: Path) -> None:
    """The checkout in another place, with this environment."""
    for name in code_files(ROOT):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, to / name)
    (to / ".venv").symlink_to(sys.prefix)
