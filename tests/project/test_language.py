"""Texts for people have none of the words in tests/support/language/banned.toml."""

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.paths import ROOT, TESTS
from tests.support.sources import modules, nodes

BANNED = tomllib.loads((TESTS / "support/language/banned.toml").read_text(encoding="utf-8"))
RULES = [(re.compile(rule["pattern"], re.IGNORECASE), rule["use"]) for rule in BANNED["rules"]]
EXEMPT = re.compile("|".join(BANNED["exempt"]))
INLINE_CODE = re.compile(r"``?[^`\n]+``?")
CODE_BLOCK = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)
LONGEST_FIRST_LINE = 80


class Finding(NamedTuple):
    """A banned text: its line, what matched, and the advice of its rule."""

    line: int
    text: str
    use: str


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield docstrings and strings of several words, each with its first line."""
    for node in nodes(source):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def may_be_comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield what follows each # of a line: its comment, or part of a string."""
    for number, line in lines(source):
        yield from ((number, line[at.start() :]) for at in re.finditer("#", line))


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of Python source, each with its line."""
    if not any(findings(may_be_comments(source))):  # in a tenth of the time
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of Python source, each with its first line."""
    for node in nodes(source):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = ast.get_docstring(node, clean=False)
            yield from [(node.body[0].lineno, text)] if text else []


def long_first_lines(source: str) -> list[str]:
    """Return the first lines of docstrings that are too long or no sentence."""
    firsts = [text.strip().partition("\n")[0] for _, text in docstrings(source)]
    return [one for one in firsts if len(one) > LONGEST_FIRST_LINE or one[-1] not in ".:?"]


def findings(texts: Iterator[tuple[int, str]]) -> Iterator[Finding]:
    for line, text in texts:
        kept = EXEMPT.sub("", INLINE_CODE.sub("", text))
        for pattern, use in RULES:
            for match in pattern.finditer(kept):
                yield Finding(line + kept.count("\n", 0, match.start()), match[0], use)


def programs() -> list[Path]:
    """Return modules, benchmarks and tools."""
    rest = [*(ROOT / "benchmarks").glob("*.py"), *(ROOT / "tools").glob("*.py")]
    return [*modules(), ROOT / "fabfile.py", *sorted(rest)]


def lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the text's lines, numbered from 1."""
    yield from enumerate(text.splitlines(), 1)


def without_code(markdown: str) -> str:
    """Return Markdown with blank lines for code blocks, which have names of programs."""
    return CODE_BLOCK.sub(lambda match: "\n" * match[0].count("\n"), markdown)


def plain_files() -> list[Path]:
    """Return files that people read as a whole: notes, sweeps, page, scripts, docs."""
    return sorted(
        {
            ROOT / "bench/notes.toml",
            ROOT / "hosts.example",
            ROOT / "docs/prices.example.toml",
            ROOT / "Makefile",
            ROOT / ".ci/run",
            ROOT / "mkdocs.yml",
            ROOT / "pyproject.toml",
            ROOT / "requirements-gpu.in",
            *(ROOT / "containers").iterdir(),
            *(ROOT / "tools").glob("*.sh"),
            *(ROOT / "bench/sweeps").glob("*.toml"),
            *(ROOT / "plots/page").glob("*.html"),
            *(ROOT / "plots/page/scripts").glob("*.js"),
            *(ROOT / "plots/page").glob("*.css"),
            ROOT / "README.md",
            ROOT / "CONTRIBUTING.md",
            ROOT / "CHANGELOG.md",
            ROOT / "SECURITY.md",
            *(path for path in (ROOT / "docs").rglob("*.md") if "runs" not in path.parts),
        }
    )


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", programs(), ids=name)
def test_strings_and_docstrings_are_plain(path: Path) -> None:
    assert list(findings(texts(path.read_text(encoding="utf-8")))) == []


def test_comments_and_the_docstrings_of_tests_are_plain() -> None:
    found = {}
    for path in [*programs(), *sorted(TESTS.rglob("*.py"))]:
        source, of_a_test = path.read_text(encoding="utf-8"), TESTS in path.parents
        texts = [*comments(source), *(docstrings(source) if of_a_test else ())]
        banned = [*findings(iter(texts)), *(long_first_lines(source) if of_a_test else ())]
        if banned:
            found[name(path)] = banned
    assert found == {}


@pytest.mark.parametrize("path", plain_files(), ids=name)
def test_notes_sweeps_page_and_docs_are_plain(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert list(findings(lines(without_code(text) if path.suffix == ".md" else text))) == []


@pytest.mark.parametrize("path", programs(), ids=name)
def test_the_first_line_of_a_docstring_is_one_short_sentence(path: Path) -> None:
    assert long_first_lines(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("rule", BANNED["rules"], ids=lambda rule: rule["use"])
def test_a_rule_finds_its_example(rule: dict[str, str]) -> None:
    assert rule["use"] in [found.use for found in findings(lines(rule["example"]))]


def test_stored_names_and_code_are_exempt() -> None:
    text = "Run `fab practice.mend`; practice.mend repairs links; see `what is measured`."
    assert list(findings(lines(text))) == []
    assert list(findings(lines('log-doubtful = "contradicted"'))) == []
    assert list(findings(lines("a log-doubtful note"))) != []
    assert without_code("a\n```sh\nit says\n```\nb\n").split() == ["a", "b"]


def test_the_line_of_a_finding_is_that_of_its_text() -> None:
    source = '"""First line.\n\nThe log says more.\n"""\nx = f"{1} heard {2}"\n'
    assert [found.line for found in findings(texts(source))] == [3, 5]
