"""The hash over the code that decides a number: the same on every host of a measurement.

Standard library only and Python 3.8 or newer: it is sent to hosts.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import ast
import errno
import hashlib
import os
import re
import stat
import threading

TYPE_CHECKING = False  # as in launch/remote/lease.py
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The worker, the processes of both engines, and what starts and watches them on a host.
PROGRAMS = (
    "bench.train_imagenet",
    "bench.engines.server",
    "bench.engines.fake_process",
    "launch.remote.agent",
)
# Threads that parse at once get a SystemError from Python 3.11 (recursion depth mismatch).
_PARSING = threading.Lock()
_LOCK = "requirements.lock"
# A string, or the end of a line with its comment and all lines below that hold no code.
_PIECES = re.compile(
    rb'("""(?:\\.|[^\\])*?"""|'
    rb"'''(?:\\.|[^\\])*?'''|"
    rb'"(?:\\.|[^"\\\n])*"|'
    rb"'(?:\\.|[^'\\\n])*')|"
    rb"(?:[ \t\f\r]*(?:#[^\n]*)?\n)+",
    re.DOTALL,
)
_BUILDER = re.compile(rb'"((?:\w+\.)+\w+):\w+"')  # import_module() gets it later


class Module:
    """A module of a checkout: its file, relative to the root, and its parsed text."""

    def __init__(self, root: str, path: str) -> None:
        self.path = path
        name = os.path.join(root, path)  # noqa: PTH118
        with open(name, "rb") as file:  # noqa: PTH123
            self.text = file.read()
        try:
            with _PARSING:
                self._tree = ast.parse(self.text)
        except (SyntaxError, ValueError) as error:
            raise OSError(errno.EINVAL, f"Python cannot parse it: {error}", name) from None

    def imported(self) -> Iterator[str]:
        """What it imports, at once or in a function; names that are no modules are among them."""
        for node in _statements(self._tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
        yield from (name.decode() for name in _BUILDER.findall(self.text))

    def code(self) -> bytes:
        """The source without docstrings, comments and empty lines."""
        lines = self.text.splitlines(keepends=True)
        starts = [0]
        for line in lines:
            starts.append(starts[-1] + len(line))
        text = self.text + b"\n"
        for node in sorted(_docstrings(self._tree), key=lambda node: -node.lineno):
            end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
            text = text[: starts[node.lineno - 1] + node.col_offset] + text[end:]
        return _PIECES.sub(lambda found: found[1] or b"\n", text).strip(b"\n")


def code_hash(root: Path | str) -> str:
    """Twelve hex digits over the code that a measured process can run, and the lock.

    Comments, docstrings and empty lines do not count: they are cut out of the text, for a dump of
    the parsed code differs between Pythons. Raises OSError for a file that cannot be read or
    parsed, whose absence would be another code.
    """
    digest = hashlib.sha256()
    modules = closure(root, PROGRAMS).values()
    for module in sorted(modules, key=lambda module: module.path.split("/")):
        digest.update(module.path.encode() + b"\0" + module.code() + b"\0")
    if _is_file(str(root), _LOCK):
        with open(os.path.join(root, _LOCK), "rb") as file:  # noqa: PTH118,PTH123
            digest.update(_LOCK.encode() + b"\0" + file.read())
    return digest.hexdigest()[:12]


def closure(root: Path | str, programs: tuple[str, ...]) -> dict[str, Module]:
    """The modules of a checkout that programs import, by name, each after those it imports itself.

    Imports in functions and the packages of a module count; those for type checkers do not.
    """
    folder = str(root)
    seen: dict[str, bool] = {}  # whether the name is a package's
    found: dict[str, Module] = {}

    def visit(name: str) -> None:
        if name in seen:
            return
        seen[name] = False
        package = name.rpartition(".")[0]
        if package:
            visit(package)
            if not seen[package]:
                return
        path = name.replace(".", "/")
        seen[name] = _is_file(folder, f"{path}/__init__.py")
        path += "/__init__.py" if seen[name] else ".py"
        if seen[name] or _is_file(folder, path):
            module = Module(folder, path)
            for other in module.imported():
                visit(other)
            found[name] = module

    for program in programs:
        visit(program)
    return found


def _is_file(root: str, path: str) -> bool:
    name = os.path.join(root, path)  # noqa: PTH118
    try:
        mode = os.stat(name).st_mode  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return False
    if not stat.S_ISREG(mode):  # a pipe would hold us for ever
        raise OSError(errno.EINVAL, "it is no regular file", name)
    return True


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """All statements below a node but those for type checkers only."""
    for field in ("body", "handlers", "orelse", "finalbody"):
        for below in getattr(node, field, ()):
            test = getattr(below, "test", None)
            if not (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"):
                yield below
                yield from _statements(below)


def _docstrings(tree: ast.Module) -> Iterator[ast.Expr]:
    holders = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in (tree, *_statements(tree)):
        if isinstance(node, holders) and node.body and isinstance(node.body[0], ast.Expr):
            value = node.body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield node.body[0]
