import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from results import run_folder
from tests.support.paths import ROOT
from tests.support.sources import modules

FOLDERS = {run_folder.LOGS, run_folder.REPORT}
FILE = re.compile(r"[\w.]*\.(jsonl?|toml|csv|md|html|svg|png|parquet)")
FILES = {
    name
    for value in vars(run_folder).values()
    for name in (value if isinstance(value, tuple) else [value])
    if isinstance(name, str) and FILE.fullmatch(name)
}
SPELLED = re.compile(rf"(\S*/)?({'|'.join(map(re.escape, sorted(FILES)))})(/\S*)?")


def spelled(tree: ast.Module) -> Iterator[str]:
    """Return the file names of a run, and the folder names of its paths."""
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(op=ast.Div(), right=ast.Constant(value=str(name))) if name in FOLDERS:
                yield name
            case ast.Constant(value=str(text)) if SPELLED.fullmatch(text):
                yield text


def test_files_and_paths_count_as_spelled_but_prose_does_not() -> None:
    source = 'x / "logs", "records.jsonl", f"{x}/asked.json", "in report.md", "report"'
    assert set(spelled(ast.parse(source))) == {"records.jsonl", "logs", "/asked.json"}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_other_module_spells_the_names_of_a_run(path: Path) -> None:
    if path != Path(run_folder.__file__):
        assert list(spelled(ast.parse(path.read_text()))) == []
