"""Errors in source code: calls of `error_line`, their texts, bare exceptions."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.sources import nodes, parsed

# A part of a message that differs from error to error.
GAP = "…"
# Exceptions whose text a user reads as one line.
USER_ERRORS = frozenset(
    (
        *("SpecError", "SmallShareError", "DataError", "DamagedTarError", "StoreError"),
        *("LaunchError", "PreflightError", "StoppedError", "ProtocolError", "UnknownKeyError"),
    )
)

# Functions that yield or return messages of verdicts.
VERDICTS = frozenset({"invalid_reasons", "exit_text"})
ENDS = (ast.Yield, ast.Return)


@dataclass(frozen=True, kw_only=True)
class ErrorCall:
    """A call of `error_line`.

    text  its message without place and fix; GAP for what is known only when it is raised
    fix   its fix, alike
    """

    line: int
    text: str
    fix: str

    @property
    def forwards(self) -> bool:
        """Whether the whole message comes from elsewhere."""
        return not self.text.replace(GAP, "").strip(" :;,()")


Names = dict[str, list[ast.expr]]


def constant(node: ast.expr | None, names: Names) -> str:
    """The text of an expression; `names` are those that the same scopes assign."""
    text = GAP
    match node:
        case None:
            text = ""
        case ast.Constant():
            text = str(node.value)
        case ast.JoinedStr():
            text = "".join(constant(part, names) for part in node.values)
        case ast.FormattedValue():
            text = constant(node.value, names)
        case ast.BinOp(op=ast.Add()):
            text = constant(node.left, names) + constant(node.right, names)
        case ast.IfExp():
            text = f"{constant(node.body, names)}{GAP}{constant(node.orelse, names)}"
        case ast.Subscript(value=ast.Name(id=name)):  # of a dict that is written out
            tables = [one for one in names.get(name, []) if isinstance(one, ast.Dict)]
            texts = [constant(value, names) for one in tables for value in one.values]
            text = GAP.join(texts) or GAP
        case ast.Name(id=name) if name in names:
            rest = {other: values for other, values in names.items() if other != name}
            text = GAP.join(constant(value, rest) for value in names[name])
    return text


def assigned(tree: ast.AST) -> Names:
    """The strings of each name in a module or function, without inner functions."""
    found: Names = {}
    for node in _own(tree):
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            match node.targets[0], node.value:
                case ast.Tuple(elts=targets), ast.Tuple(elts=values):
                    pairs = list(zip(targets, values, strict=False))
                case target, value:
                    pairs = [(target, value)]
        for target, value in pairs:
            if isinstance(target, ast.Name):
                found.setdefault(target.id, []).append(value)
    return found


def _own(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a module or function, without those of functions in it."""
    left = [*ast.iter_child_nodes(tree)][::-1]
    while left:
        yield (node := left.pop())
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            left += [*ast.iter_child_nodes(node)][::-1]


def _named(tree: ast.AST, known: Names) -> Iterator[tuple[ast.Call, Names]]:
    names = known | assigned(tree)
    for node in _own(tree):
        if isinstance(node, ast.Call):
            yield node, names
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            yield from _named(node, names)


@cache
def named_calls(source: str) -> tuple[tuple[ast.Call, Names], ...]:
    """The calls in a module, each with the strings of the names around it."""
    return tuple(_named(parsed(source), {}))


def called(node: ast.Call) -> str:
    """The last part of the name of the function that is called."""
    match node.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


@cache
def error_calls(source: str) -> tuple[ErrorCall, ...]:
    """The calls of `error_line` in a module."""
    found = []
    for node, names in named_calls(source):
        if called(node) == "error_line":
            parts = {one.arg or "": constant(one.value, names) for one in node.keywords}
            expected, got = parts.get("expected", ""), parts.get("got", "")
            facts = ", ".join(
                (*(f"expected {expected}",) * bool(expected), *(f"got {got}",) * bool(got))
            )
            text = "; ".join(filter(None, (facts, parts.get("problem", ""))))
            found.append(ErrorCall(line=node.lineno, text=text, fix=parts.get("fix", "")))
    return tuple(found)


def verdict_texts(source: str) -> list[str]:
    """The messages of a module's verdicts, with GAP for what differs."""
    found = []
    for node, names in named_calls(source):
        if called(node) == "Verdict":
            found += [constant(one.value, names) for one in node.keywords if one.arg == "message"]
    for function in nodes(source):
        if isinstance(function, ast.FunctionDef) and function.name in VERDICTS:
            values = [one.value for one in ast.walk(function) if isinstance(one, ENDS)]
            found += [constant(one, {}) for one in values]
    return [text for text in found if re.search(r"\w{3}.* \w{2}", text)]


def bare_errors(source: str) -> list[tuple[int, str]]:
    """Line and name of each user's exception that is made from a bare string."""
    found = []
    for node, names in named_calls(source):
        if called(node) in USER_ERRORS and node.args:
            first = node.args[0]
            values = names.get(first.id, []) if isinstance(first, ast.Name) else [first]
            if any(isinstance(one, ast.Constant | ast.JoinedStr | ast.BinOp) for one in values):
                found.append((node.lineno, called(node)))
    return found


def calls_of(path: Path) -> tuple[ErrorCall, ...]:
    """The calls of `error_line` in a file."""
    return error_calls(path.read_text(encoding="utf-8"))
