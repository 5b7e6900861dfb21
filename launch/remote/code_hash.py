"""Hash of the code that affects a measurement: equal on all hosts of a job."""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import errno
import hashlib
import os
import re
import stat

TYPE_CHECKING = False  # as in launch/remote/lease.py
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The worker, the processes of the engines, and the agent that starts them.
PROGRAMS = (
    "bench.train_imagenet",
    "bench.engines.server",
    "bench.engines.fake_process",
    "bench.engines.command.runner",
    "launch.remote.agent",
)
_LOCK = "requirements.lock"
_STRING = (
    rb'(?:"""(?:\\.|[^\\])*?"""|'
    rb"'''(?:\\.|[^\\])*?'''|"
    rb'"(?:\\.|[^"\\\n])*"|'
    rb"'(?:\\.|[^'\\\n])*')"
)
# The end of a line with its comment, and all lines below that hold no code.
_END = rb"(?:[ \t\f\r]*(?:#[^\n]*)?\n)+"
# In this order: a string that is a whole line (a docstring); another string; ends; brackets.
_PIECES = re.compile(
    rb"(?P<line>(?<=[^\\]\n)[ \t]*%b)%b|(?P<string>%b)|(?P<end>%b)|"
    rb"(?P<open>[(\[{])|(?P<close>[)\]}])" % (_STRING, _END, _STRING, _END),
    re.DOTALL,
)
_FOR_TYPES = re.compile(rb"^([ \t]*)if TYPE_CHECKING:\n(?:\1[ \t]+[^\n]*\n)+", re.MULTILINE)
_IMPORTS = re.compile(
    rb"^[ \t]*(?:from ([\w.]+) import (?:\(([^)]*)\)|([^\n]*))|import ([^\n]*))", re.MULTILINE
)
_BUILDER = re.compile(rb'"((?:\w+\.)+\w+):\w+"')  # import_module() gets it later


class Module:
    """A module of a checkout: its path relative to the root, its text and its code.

    The code is the text without docstrings, comments and empty lines. A scan of strings and
    brackets removes them: `ast` would take 0.2 s for all modules, and its dump depends on the
    Python version.
    """

    def __init__(self, root: str, path: str) -> None:
        self.path = path
        with open(os.path.join(root, path), "rb") as file:  # noqa: PTH118,PTH123
            self.text = file.read()
        depth = 0

        def kept(found: re.Match[bytes]) -> bytes:
            nonlocal depth
            if found["line"]:
                return found["line"] + b"\n" if depth else b""
            depth += (found.lastgroup == "open") - (found.lastgroup == "close")
            return b"\n" if found["end"] else found[0]

        self.code = _PIECES.sub(kept, b"#\n" + self.text + b"\n").strip(b"\n")

    def imported(self) -> Iterator[str]:
        """Yield the names it imports, also in functions; not all of them are modules."""
        code = _FOR_TYPES.sub(b"", self.code)
        for package, *names in _IMPORTS.findall(code):
            prefix = f"{package.decode()}." if package else ""
            for name in b",".join(filter(None, names)).decode().split(","):
                yield prefix + name.strip().partition(" ")[0]
        yield from (name.decode() for name in _BUILDER.findall(code))


def code_hash(root: Path | str) -> str:
    """Return 12 hex digits over the code of measured processes and the lock file.

    Comments, docstrings and empty lines do not count. Raises OSError if a file cannot be read.
    """
    digest = hashlib.sha256()
    modules = closure(root, PROGRAMS).values()
    for module in sorted(modules, key=lambda module: module.path.split("/")):
        digest.update(module.path.encode() + b"\0" + module.code + b"\0")
    if _is_file(str(root), _LOCK):
        with open(os.path.join(root, _LOCK), "rb") as file:  # noqa: PTH118,PTH123
            digest.update(_LOCK.encode() + b"\0" + file.read())
    return digest.hexdigest()[:12]


def closure(root: Path | str, programs: tuple[str, ...]) -> dict[str, Module]:
    """Return the modules that programs import, by name, each after its own imports.

    Imports in functions and the packages of a module count; those for type checkers do not.
    """
    folder = str(root)
    packages: dict[str, bool] = {}  # whether the name is a package's
    found: dict[str, Module] = {}

    def visit(name: str) -> None:
        if name in packages:
            return
        packages[name] = False
        package = name.rpartition(".")[0]
        if package:
            visit(package)
            if not packages[package]:
                return
        path = name.replace(".", "/")
        packages[name] = _is_file(folder, f"{path}/__init__.py")
        path += "/__init__.py" if packages[name] else ".py"
        if packages[name] or _is_file(folder, path):
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
    if not stat.S_ISREG(mode):  # reading a pipe would block
        raise OSError(errno.EINVAL, "not a regular file", name)
    return True
