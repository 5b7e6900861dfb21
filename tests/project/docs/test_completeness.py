"""Reference pages list every file, exit code, variable, fault and format."""

import ast
import re
from collections.abc import Iterator

import pytest

from bench.engines.faults import KINDS as FAULTS
from bench.logs.formats import FORMATS as LOG_FORMATS
from launch.hostfile import parse
from results import run_folder
from tests.support.paths import ROOT
from tests.support.sources import modules

DOCS = ROOT / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def rows(text: str) -> list[list[str]]:
    """The cells of all table rows, without headings."""
    lines = re.findall(r"^\| (.*) \|$", text, re.MULTILINE)
    return [line.split(" | ") for line in lines]


def code(text: str) -> set[str]:
    """All text in backticks; of NAME=VALUE, the name."""
    inline = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return {part.partition("=")[0] for part in re.findall(r"`([^`\n]+)`", inline)}


def test_every_file_of_a_run_is_described() -> None:
    text = page("reference/run-folder.md")
    names = [
        *run_folder.COVERED,
        *run_folder.UNCOVERED[:3],
        run_folder.CATALOG,
        run_folder.EVENTS,
        run_folder.HOSTS,
        run_folder.RECORDED,
    ]
    assert [name for name in names if name not in text] == []


def test_every_file_of_a_report_is_described() -> None:
    text = page("reference/report.md")
    names = [
        *(run_folder.TABLE, run_folder.TEXT, run_folder.PAGE, run_folder.PARQUET),
        *(run_folder.DIGESTS, run_folder.AB_TEXT, run_folder.AB_TABLE),
        *(f"{run_folder.UPSTREAM}/", f"{run_folder.EXPORTS}/", f"{run_folder.PAPER}/"),
        *run_folder.PICTURES,
    ]
    assert [name for name in names if name not in text] == []


def exit_codes(source: str) -> Iterator[int]:
    """The codes that a module passes as `code=`, spelled out or named by a constant."""
    tree = ast.parse(source)
    named = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value.value, int)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "code":
            for part in ast.walk(node.value):
                if isinstance(part, ast.Constant) and isinstance(part.value, int):
                    yield part.value
                elif isinstance(part, ast.Name) and part.id in named:
                    yield named[part.id]


def test_every_exit_code_of_a_task_is_listed() -> None:
    found = {
        one
        for path in [ROOT / "fabfile.py", *(ROOT / "tasks").glob("*.py")]
        for one in exit_codes(path.read_text(encoding="utf-8"))
    }
    assert {2, 3, 4, 5, 6, 130, 141} <= found
    text = page("reference/exit-codes.md").partition("## launch.launch")[0]
    listed = {int(cells[0]) for cells in rows(text) if cells[0].isdigit()}
    assert found <= listed
    assert {0, 1, 129, 143} <= listed


# Variables of every process, not of this project.
ORDINARY = {"PATH", "HOME", "MLFLOW_DISABLE_TELEMETRY"}


def test_every_variable_that_is_read_is_listed() -> None:
    found = {
        name
        for path in modules()
        if not path.is_relative_to(ROOT / "tests")
        for name in re.findall(
            r"""environ(?:\.get\(|\[)"([A-Z][A-Z_0-9]+)\"""", path.read_text(encoding="utf-8")
        )
    }
    assert "SLURM_JOB_NODELIST" in found
    assert found - ORDINARY <= code(page("reference/environment.md"))


def test_every_fault_is_listed() -> None:
    found = [cells[0] for cells in rows(page("how-to/rehearse-failures.md"))]
    assert {name.strip("`") for name in found if name.startswith("`")} == set(FAULTS)


def test_every_format_of_logs_is_listed() -> None:
    assert set(LOG_FORMATS) <= code(page("reference/log-formats.md"))
    assert set(LOG_FORMATS) <= code(page("how-to/import-logs.md"))


LINES = [cells[0] for cells in rows(page("reference/hosts-file.md")) if "`" in cells[0]]


@pytest.mark.parametrize("cell", LINES)
def test_every_line_of_the_hosts_file_page_is_a_host(cell: str) -> None:
    line, *options = re.findall(r"`([^`]+)`", cell)
    format = options[0].removeprefix("--hosts-format ") if options else ""
    assert len(parse(line, "hosts", format)) == 1


def terms() -> list[tuple[str, str]]:
    """Each stored name of the glossary, with its term."""
    return [
        (cells[0], name)
        for cells in rows(page("reference/glossary.md"))
        for name in re.findall(r"`([^`]+)`", cells[1])
    ]


def sources() -> str:
    kept = [path for path in modules() if not path.is_relative_to(ROOT / "tests")]
    return "\n".join(path.read_text(encoding="utf-8") for path in kept)


def test_stored_names_of_the_glossary_exist() -> None:
    text = sources()
    for term, name in terms():
        words = re.findall(r"[A-Za-z_][\w-]*[A-Za-z_]", name)
        missing = [
            word for word in words if word not in text and word.replace("-", "_") not in text
        ]
        assert missing == [], (term, name)
