"""No code parses sentences; it compares kinds, statuses and figures."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.sources import modules, nodes

# Attributes that hold sentences for people, and functions that compose them.
TEXTS = {"message", "remark", "source", "failure", "idle", "headline", "last_words"}
COMPOSED = {"texts", "sentence", "whole", "paragraph", "remarks", "doubts", "caveats"}
ASKED = {
    *("startswith", "endswith", "split", "rsplit", "partition", "rpartition", "splitlines"),
    *("find", "rfind", "index", "rindex", "count", "search", "match", "fullmatch", "findall"),
    *("finditer", "sub", "subn"),
}


def is_prose(node: ast.expr) -> bool:
    """Return whether the expression is a sentence, or text made of one."""
    if isinstance(node, ast.Attribute):
        return node.attr in TEXTS
    if isinstance(node, ast.Subscript):
        key = node.slice
        is_key = isinstance(key, ast.Constant) and key.value in TEXTS - {"source"}
        return is_key or is_prose(node.value)
    if isinstance(node, ast.Call):
        name = node.func
        called = name.id if isinstance(name, ast.Name) else getattr(name, "attr", "")
        inner = isinstance(name, ast.Attribute) and is_prose(name.value)
        return called in COMPOSED or (inner and called in {"lower", "strip", "casefold"})
    return False


def comparisons(source: str) -> Iterator[int]:
    """Return the lines that compare, search or split a sentence."""
    for node in nodes(source):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(map(is_prose, sides)) and not any(_is_empty(side) for side in sides):
                yield node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            asked = node.func.attr in ASKED
            if asked and any(map(is_prose, (node.func.value, *node.args))):
                yield node.lineno


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value in {"", None}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_code_compares_the_text_of_messages(path: Path) -> None:
    assert list(comparisons(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "line",
    [
        '" differ in " in row.message',
        "DISTURBED in row.message",
        'row.remark == "not steady"',
        'one.message.split("; ")',
        're.search("busy", record.message.lower())',
        'AMOUNT.sub("#", row.message)',
        'line.source.startswith("imported ")',
        '"slower" in sentence(note)',
        '"busy" in event.values["message"]',
    ],
)
def test_a_comparison_of_text_is_found(line: str) -> None:
    assert list(comparisons(line)) == [1]


@pytest.mark.parametrize(
    "line", ['row.message != ""', "row.message and row.notes", "print(a.remark)"]
)
def test_what_prints_text_is_none(line: str) -> None:
    assert list(comparisons(line)) == []
