"""The modules of the checkout, their imports, and a copy of the checkout."""

import ast
import shutil
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from launch.install import code_files
from tests.support.paths import ROOT

PACKAGES = ("bench", "im2rec_tools", "launch", "plots", "results", "tasks")


def modules() -> list[Path]:
    return [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]


@cache
def parsed(source: str) -> ast.Module:
    """Return the syntax tree of a source, which many rules read; none may change it."""
    return ast.parse(source)


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """Return all nodes of a source, outer ones first."""
    return tuple(ast.walk(parsed(source)))


def dotted(path: Path) -> str:
    """Return the import name of a module of the checkout."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_for_types(node: ast.If | ast.Try) -> bool:
    """Return whether only a type checker reads the statements of this node."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def imported(path: Path, known: set[str], *, at_once: bool = False) -> set[str]:
    """Return the mxscale modules that a module imports.

    `at_once`: without imports in functions.
    """
    source = path.read_text(encoding="utf-8")
    found: set[str] = set()
    for node in statements(parsed(source).body) if at_once else nodes(source):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{name.name}" for name in node.names}
            found |= {name if name in known else node.module for name in names}
    return found & known - {dotted(path)}


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run when a module is imported."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try) and not is_for_types(node):
            yield from statements([*node.body, *node.orelse])


def imports(source: str) -> Iterator[str]:
    for node in nodes(source):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def copied(to: Path) -> None:
    """Copy the checkout to another folder, with this environment."""
    for name in code_files(ROOT):
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, to / name)
    (to / ".venv").symlink_to(sys.prefix)
