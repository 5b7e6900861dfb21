"""Every error has a fix or an entry in the docs; every entry is a message."""

import ast
import os
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import pytest

from bench.training.options import parser
from results.record import STATUSES
from tests.support.errors import (
    GAP,
    Names,
    bare_errors,
    calls_of,
    constant,
    error_calls,
    verdict_texts,
)
from tests.support.paths import ROOT
from tests.support.sources import modules, nodes

TROUBLESHOOTING = ROOT / "docs/how-to/troubleshooting.md"
PAGES = [
    TROUBLESHOOTING,
    ROOT / "docs/how-to/error-messages.md",
    ROOT / "docs/how-to/rejected-values.md",
]
# Words of which an entry must have another: without it, it would fit any error.
COMMON = {"expected", "got", "a", "an", "the", "one", "or", "and", "is", "in", "for", "to"}
MOST_PER_ENTRY = 40
# Exceptions made from a string, each with the reason why it has no place and fix of its own.
BARE = {
    ("bench/errors.py", "SpecError"): "unknown names: the line lists the known ones",
    ("launch/data_shares.py", "PreflightError"): "the summary of the hosts' lines below it",
    ("launch/preflight/disks.py", "PreflightError"): "the summary of the hosts' lines below it",
    ("launch/setup.py", "PreflightError"): "the summary of the hosts' lines below it",
    ("launch/sweep.py", "StoppedError"): "no error: the user stopped the job",
    ("*", "ProtocolError"): "a part: RemoteProgram.protocol_error adds the host and the fix",
}


def entries(text: str) -> list[str]:
    """The messages in the first cells of a page's tables of messages."""
    found: list[str] = []
    for table in re.findall(r"^\| message \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE):
        for row in table.splitlines():
            found += re.findall(r"`([^`]+)`", row.split(" | ")[0])
    return found


def fits(entry: str, text: str) -> bool:
    """Whether a message contains the entry, whose gaps fit anything."""
    place = 0
    for part in entry.split(GAP):
        place = text.find(part.strip(), place)
        if place < 0:
            return False
        place += len(part.strip())
    return True


def is_specific(entry: str) -> bool:
    words = re.findall(r"[\w.-]+", entry)
    return bool({word.lower() for word in words} - COMMON) and len(entry.replace(GAP, "")) >= 5


def unexplained(source: str, known: Iterable[str]) -> list[tuple[int, str]]:
    """Line and text of each error of a module that has neither a fix nor an entry."""
    return [
        (call.line, call.text)
        for call in error_calls(source)
        if not call.fix and not call.forwards and not any(fits(one, call.text) for one in known)
    ]


def bare(source: str, name: str) -> list[tuple[int, str]]:
    """Line and name of exceptions made from a string without a listed reason."""
    found = bare_errors(source)
    return [one for one in found if not {(name, one[1]), ("*", one[1])} & BARE.keys()]


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


KNOWN = [entry for page in PAGES for entry in entries(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("path", modules(), ids=shown)
def test_every_error_has_a_fix_or_an_entry(path: Path) -> None:
    assert unexplained(path.read_text(encoding="utf-8"), KNOWN) == []


@pytest.mark.parametrize("path", modules(), ids=shown)
def test_errors_are_composed_by_error_line(path: Path) -> None:
    assert bare(path.read_text(encoding="utf-8"), shown(path)) == []


def strings(source: str) -> list[str]:
    """The constant texts of a module's strings."""
    names: Names = {}
    kinds = (ast.Constant, ast.JoinedStr, ast.BinOp)
    found = [node for node in nodes(source) if isinstance(node, kinds)]
    return [text for node in found if len(text := constant(node, names)) > 1]


def sources() -> list[str]:
    """All texts for users: of modules, scripts, notes and the operating system."""
    found = [os.strerror(number) for number in range(1, 134)]
    for path in modules():
        text = path.read_text(encoding="utf-8")
        found += [call.text for call in calls_of(path)] + strings(text)
        found += [f"unknown {name}" for name in re.findall(r"\bunknown\(\s*\"(\w+)\"", text)]
    for path in (ROOT / "tools/environment.sh", ROOT / "bench/notes.toml"):
        found += path.read_text(encoding="utf-8").splitlines()
    return found


def stale(known: Sequence[str], texts: Collection[str]) -> list[str]:
    """The entries that no text contains."""
    return [entry for entry in known if not any(fits(entry, text) for text in texts)]


# Printed by argparse.
OF_LIBRARIES = ["unrecognized arguments: --x"]


def test_every_entry_is_a_message_of_the_program() -> None:
    assert stale(KNOWN, {*sources(), *OF_LIBRARIES}) == []


def test_every_entry_is_specific() -> None:
    texts = [call.text for path in modules() for call in calls_of(path)]
    wide = [one for one in KNOWN if sum(fits(one, text) for text in texts) > MOST_PER_ENTRY]
    assert wide + [entry for entry in KNOWN if not is_specific(entry)] == []


@pytest.mark.parametrize("name", ["monitor", "run", "validity"])
def test_every_verdict_on_a_job_has_an_entry(name: str) -> None:
    texts = verdict_texts((ROOT / f"launch/job/{name}.py").read_text(encoding="utf-8"))
    assert len(texts) > 1
    assert [text for text in texts if not any(fits(one, text) for one in KNOWN)] == []


# Options of other programs that the pages name.
OF_OTHERS = {"--x"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_command_and_option_exists(page: Path) -> None:
    folder = ROOT / "docs/reference"
    # test_reference holds cli.md against the tasks.
    known = (folder / "cli.md").read_text(encoding="utf-8") + parser().format_help()
    text = page.read_text(encoding="utf-8")
    tasks = set(re.findall(r"\bfab ([a-z]+\.[a-z-]+)", text))
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
    assert {one for one in tasks if not re.search(rf"^#+ .*{re.escape(one)}", known, re.M)} == set()
    assert {one for one in options - OF_OTHERS if one not in known} == set()


def test_every_status_without_a_result_has_a_symptom() -> None:
    text = TROUBLESHOOTING.read_text(encoding="utf-8")
    assert {name for name in STATUSES if f"| `{name}`" not in text} == {"ok"}


SAMPLE = """
def f(path, error):
    problem = f"cannot be digested ({error})"
    if path:
        raise SpecError(error_line(path, problem=problem{fix}))
    raise SpecError(error_line(path, problem=str(error)))
"""


def test_an_error_without_fix_and_entry_is_found() -> None:
    source = SAMPLE.replace("{fix}", "")
    assert unexplained(source, KNOWN) == [(5, "cannot be digested (…)")]
    assert unexplained(source, [*KNOWN, "cannot be digested"]) == []
    assert unexplained(SAMPLE.replace("{fix}", ', fix=""'), KNOWN) != []
    assert unexplained(SAMPLE.replace("{fix}", ', fix="Chew it"'), KNOWN) == []


def test_a_bare_exception_is_found() -> None:
    assert bare('raise SpecError(f"{path}: bad")', "bench/sweep.py") == [(1, "SpecError")]
    assert bare('problem = "bad"\nraise errors.StoreError(problem)', "results/store.py") != []
    assert bare('raise StoppedError("ended")', "launch/sweep.py") == []
    assert bare("raise SpecError(error_line(path, problem='bad'))", "bench/sweep.py") == []


def test_a_stale_or_vague_entry_is_found() -> None:
    page = "| message | fix |\n|---|---|\n| `cannot be … by me`, `gone` | `no entry` |\n"
    assert entries(page) == ["cannot be … by me", "gone"]
    assert stale(entries(page), ["x cannot be fixed by me"]) == ["gone"]
    assert not is_specific("expected …, got …")
    assert not is_specific("expected a")
