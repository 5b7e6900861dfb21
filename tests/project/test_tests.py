"""Rules of the tests: no imports between tests, no private names of the code."""

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.support.errors import called
from tests.support.paths import ROOT, TESTS
from tests.support.sources import PACKAGES, imports, modules, nodes

PRIVATE = re.compile(r"_[^_]\w*")
# Of MXNet's objects; the code has these names too.
MXNET = {"_optimizer", "_rate"}


def files() -> Iterator[tuple[str, str]]:
    """Yield name and text of every test file."""
    for path in sorted(TESTS.rglob("*.py")):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


@cache
def private_names() -> frozenset[str]:
    """Return the private names that the code defines, with attributes."""
    names: set[str] = set()
    for path in [*modules(), ROOT / "fabfile.py"]:
        for node in nodes(path.read_text(encoding="utf-8")):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
    return frozenset(name for name in names if PRIVATE.fullmatch(name))


def uses(text: str) -> Iterator[str]:
    """Return private names of the code that a test imports, reads or replaces."""
    attributes = private_names() - MXNET
    for node in nodes(text):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in PACKAGES:
            yield from (name.name for name in node.names if PRIVATE.fullmatch(name.name))
        elif isinstance(node, ast.Attribute) and node.attr in attributes:
            if not (isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}):
                yield node.attr
        elif isinstance(node, ast.Call) and called(node) == "setattr":
            words = [str(word.value) for word in node.args[:2] if isinstance(word, ast.Constant)]
            names = [word.rpartition(".")[2] for word in words]
            yield from (name for name in names if name in private_names())


@pytest.mark.parametrize(
    "text",
    [
        "from results.reader import _large",
        "import results.store\nresults.store.Store(x)._writer",
        "monkeypatch.setattr(archive, '_check', 1)",
        "monkeypatch.setattr('results.integrity.archive._check', 1)",
    ],
)
def test_a_private_name_is_found_where_it_is_used(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "private_names", lambda: {"_check", "_writer"})
    assert len(list(uses(text))) == 1


def test_no_test_uses_a_private_name_of_the_code() -> None:
    found = {name: sorted(set(uses(text))) for name, text in files()}
    assert {name: names for name, names in found.items() if names} == {}


def test_no_test_imports_another_test() -> None:
    wrong = {
        name: [one for one in imports(text) if re.match(r"tests(\.|$)(?!support)", one)]
        for name, text in files()
    }
    assert {name: found for name, found in wrong.items() if found} == {}
