"""The pages of the source documents: every row, with commands that exist."""

import re
from collections import Counter
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest

import fabfile
from tests.support.paths import ROOT

REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted(REFERENCE.glob("source-documents*.md"))
ROWS = {"S1": 34, "S2": 22, "S3": 10, "S4": 12, "S5": 11}
STATES = ("works", "partly", "missing", "not applicable")
# Modules whose options another module declares.
PARSERS = {"bench.train_imagenet": "bench.training.options"}


def rows() -> dict[str, list[str]]:
    """The cells after the number of each row: capability, state, command."""
    cells = [
        line.strip("|").strip().split(" | ")
        for page in PAGES
        for line in page.read_text(encoding="utf-8").splitlines()
        if re.match(r"\| S\d\.", line)
    ]
    assert len({row[0] for row in cells}) == len(cells)
    return {row[0]: row[1:] for row in cells}


def test_every_row_of_every_document_is_listed() -> None:
    expected = [f"{name}.{row:02}" for name, count in ROWS.items() for row in range(1, count + 1)]
    assert sorted(rows()) == expected
    assert len(expected) == 89


def test_the_counts_of_the_states_are_those_of_the_rows() -> None:
    text = (REFERENCE / "source-documents.md").read_text(encoding="utf-8")
    counts = Counter(row[1] for row in rows().values())
    found = dict(re.findall(rf"^\| ({'|'.join(STATES)}) \| .* \| (\d+) \|$", text, re.MULTILINE))
    assert {state: int(count) for state, count in found.items()} == {
        state: counts[state] for state in STATES
    }
    assert sum(counts.values()) == 89


def commands(cell: str) -> list[str]:
    """The commands in a cell: backticks that begin with a task or a module."""
    return [text for text in re.findall(r"`([^`]+)`", cell) if re.match(r"\w+\.[a-z]", text)]


@pytest.mark.parametrize("number", sorted(rows()))
def test_a_row_has_a_command_or_the_reason_why_not(number: str) -> None:
    _, state, cell = rows()[number]
    assert state in STATES
    if state == "works":
        assert commands(cell) or "](" in cell
    else:
        assert len(re.sub("`[^`]+`", "", cell).split()) >= 4


def options(name: str) -> set[str]:
    """The options of a task or a module; LookupError if there is none of the name."""
    if name in fabfile.namespace.task_names:
        task: Any = fabfile.namespace[name]
        return {f"--{flag.replace('_', '-')}" for one in task.get_arguments() for flag in one.names}
    if find_spec(name) is None:
        raise LookupError(name)
    parser = import_module(PARSERS.get(name, name)).parser()
    return {flag for action in parser._actions for flag in action.option_strings}


@pytest.mark.parametrize(
    "command", sorted({one for row in rows().values() for one in commands(row[2])})
)
def test_the_commands_of_the_rows_exist(command: str) -> None:
    name, *words = command.split()
    used = {word for word in words if word.startswith("-")}
    assert used <= options(name)


def test_a_command_that_does_not_exist_is_found() -> None:
    with pytest.raises(LookupError):
        options("bench.missing")
    assert "--raw" not in options("data.pack")
