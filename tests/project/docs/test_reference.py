"""Generated reference pages are current, and the other ones are complete."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from bench.events import KINDS
from bench.notes import NoteKind
from bench.settings.declaration import checked
from bench.settings.reference import EXAMPLES
from bench.trial import FIELDS
from plots.results_csv import COLUMNS
from results.record import SCHEMA, STATUSES, Identity, Rank, Record
from tests.support.paths import ROOT

PAGES = ROOT / "docs" / "reference"


def page(name: str) -> str:
    return (PAGES / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    command = [sys.executable, "-m", "tasks.reference", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=120)
    return folder


@pytest.mark.program
@pytest.mark.parametrize("name", ["cli.md", "notes.md", "sweep-file.md"])
def test_generated_pages_are_current(written: Path, name: str) -> None:
    assert (written / name).read_text(encoding="utf-8") == page(name), (
        "run python -m tasks.reference"
    )


def test_every_field_has_an_example_that_it_accepts() -> None:
    assert list(EXAMPLES) == list(FIELDS)
    for name, field in FIELDS.items():
        value = tomllib.loads(f"value = {EXAMPLES[name]}")["value"]
        assert field.setting.problem(checked(name, field.type, value)) == ""


def rows(text: str) -> list[str]:
    """The names in the first cells of all tables, in order."""
    cells = re.findall(r"^\| (`.+?) \|", text, re.MULTILINE)
    return [name for one in cells for name in re.findall(r"`([^`]+)`", one)]


def test_the_dictionary_has_every_column_in_order() -> None:
    found = rows(page("results-csv.md").partition("## Cost columns")[0])
    assert found == list(COLUMNS)


def test_records_and_events_are_described_in_full() -> None:
    text = page("records.md")
    found = set(rows(text))
    for kind in (Record, Rank, Identity):
        assert set(kind.__dataclass_fields__) <= found
    assert found >= KINDS
    assert found >= set(STATUSES)
    assert f"schema {SCHEMA}" in text


def test_every_kind_of_note_is_listed() -> None:
    assert rows(page("notes.md")) == [str(kind) for kind in NoteKind]


def variables() -> set[str]:
    """The variables of this project that its code spells out."""
    names = set()
    for folder in ("bench", "launch", "tools"):
        for path in (ROOT / folder).rglob("*.[ps][yh]"):
            names |= set(re.findall(r"\bMXSCALE_[A-Z_]+\b", path.read_text(encoding="utf-8")))
    return names


def test_every_variable_of_the_project_is_listed() -> None:
    assert variables() - {"MXSCALE_HIDDEN"} <= set(rows(page("environment.md")))


def test_quoted_messages_of_verification_are_the_programs_own() -> None:
    """Compare the fixed part of each message with the source that composes it."""
    section = page("verification.md").partition("## Failures with --digest only\n")[2]
    quoted = re.findall(r"^\| `(?:[\w/.]+: )?([^`…:]+)", section, re.MULTILINE)
    source = (ROOT / "plots" / "check.py").read_text(encoding="utf-8")
    assert len(quoted) == 5
    for message in quoted:
        assert re.split(r" N\b|;", message)[0].strip() in source, message


# The fixed parts of the lines of report.verify.
VERIFY_PARTS = (
    *("modified", "modified after it was written", "invalid content", "belongs to other files"),
    *(
        "pixels differ",
        "rows differ",
        "point details differ",
        "Plotly differs",
        "not part of this run's report",
    ),
    *("not a regular file", "has cost columns, but their prices are unknown"),
    *("truncated after line", "lines added after line", "events give", "missing in the record"),
    *("has no events, unlike other processes", "missing; it was there when the report was built"),
    *("cannot be read", "added after the report was built", "recompressed; same lines"),
    *("expected the digest", "the name of the run: ", "windows taken as recorded"),
    *("incomplete, as after an interrupted write", "not part of a run, and not in the digest"),
)


@pytest.mark.parametrize("part", VERIFY_PARTS)
def test_lines_of_report_verify_are_explained(part: str) -> None:
    folders = ("plots", "results", "bench")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert part in page("verification.md")
    assert any(part in path.read_text(encoding="utf-8") for path in paths)
