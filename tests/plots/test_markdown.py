"""No foreign text is markup in Markdown, or a formula in a spreadsheet."""

import csv
import dataclasses
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plots.format import fenced, in_cell, in_line
from plots.markdown import document
from plots.results_csv import cell, csv_text, results_frame
from results.integrity.digest import FORMAT, report_format
from tests.support.runs.scenes import MACHINE, point, run

pytestmark = pytest.mark.pythons

EVIL = (
    "<img src=x onerror=PWN()>\n\n# PWN heading\n\n~~~\n```\n[PWN](javascript:x) ![PWN](http://x/y)"
    "\n</details></summary><script>PWN</script> | PWN &lt;b&gt; <!-- report-format 9 --> ~~PWN~~"
)
FORMULAS = ("=cmd|' /C calc'!A0", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", " =1", "\uff1d1")


class Tags(HTMLParser):
    """Return the HTML tags of a text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.found.add(tag)


def evil_document() -> str:
    records = [
        dataclasses.replace(point(1, 10.0), commands={"worker-0": f"train\n{EVIL}"}),
        dataclasses.replace(point(2, 10.0, status="failed"), message=EVIL),
    ]
    environment = MACHINE | {
        "description": EVIL,
        "processor": EVIL,
        "mxnet": EVIL,
        EVIL: EVIL,
        "variables": {f"MXNET_{EVIL}": EVIL},
        "hosts": {EVIL: {EVIL: EVIL, "cores": [0], "differs": "a"}, "b": {"differs": EVIL}},
    }
    troubles = (f"records.jsonl:1: {EVIL}",)
    return document(run(records, name=EVIL, environment=environment, troubles=troubles))


def outside_code(text: str) -> list[str]:
    """Return the lines of a document outside code blocks."""
    found, fence = [], ""
    for line in text.splitlines():
        marks = re.match("(~{3,}|`{3,})", line)
        if fence:
            fence = "" if line == fence else fence
        elif marks:
            fence = marks[0]
        else:
            found.append(line)
    assert not fence
    return found


def test_texts_of_others_are_no_markup_in_a_report() -> None:
    lines = outside_code(evil_document())
    tags = Tags()
    tags.feed("\n".join(lines))
    assert tags.found <= {"details", "summary"}
    headings = [line for line in lines if line.startswith("#")]
    assert not any(line.lstrip("# ").startswith("PWN") for line in headings)
    text = "\n".join(lines)
    assert "[PWN](" not in text
    assert not re.search(r"(?<!\\)&lt;b", text)
    assert not re.search(r"(?<!\\)~~PWN", text)
    assert sum(line == "</details>" for line in lines) == sum(
        line.startswith("<details>") for line in lines
    )


def test_a_row_of_a_table_stays_one_row() -> None:
    rows = [line for line in outside_code(evil_document()) if line.startswith("|")]
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in rows}
    assert len(widths) <= 2  # of the points, and of what differs between hosts


def test_a_block_of_code_ends_where_it_should() -> None:
    text = evil_document()
    (block,) = re.findall(r"^(~+)sh\n(.*?)\n\1$", text, re.MULTILINE | re.DOTALL)
    assert [
        line for line in block[1].splitlines() if not line.startswith(("# worker", "train "))
    ] == []
    assert fenced(["~~~~", "a"], "sh").startswith("~~~~~sh\n")


def test_the_format_of_a_report_is_not_that_of_its_title(tmp_path: Path) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "report.md").write_text(evil_document())
    assert report_format(tmp_path, None) == FORMAT


@given(st.text())
def test_any_text_is_one_line_of_text(text: str) -> None:
    for line in (in_line(text), in_cell(text)):
        assert "\n" not in line
        assert not re.search(r"(?<!\\)([`*|$]|\][(\[])", line.replace("\\\\", ""))
        assert "<" not in line
    assert not re.match(r"\[|#|>|[-+] |={2}|-{2}|~{2}|[0-9]{1,9}[.)]( |$)", in_line(text))


def test_plain_words_stay_as_they_are() -> None:
    for text in ("dist_sync", "8/8/8", "9.56 - 10.3", "2 x AMD EPYC", "87 %", "a-b", "12"):
        assert in_line(text) == in_cell(text) == text


@pytest.mark.parametrize("text", FORMULAS)
def test_a_text_is_no_formula(text: str) -> None:
    kept = text.replace("\r", " ")
    assert cell(text) == f"'{kept}"
    assert next(csv.reader(io.StringIO(csv_text([[text]]), newline=""))) == [f"'{kept}"]


@pytest.mark.parametrize("value", [-1.5, "-1.5", "+2e3", "", None, 7, "a=1", "-inf", "local x2"])
def test_numbers_and_words_are_left_alone(value: object) -> None:
    assert cell(value) == value


@pytest.mark.parametrize("text", FORMULAS)
def test_results_csv_has_no_formula_and_pandas_reads_it(text: str) -> None:
    failed = dataclasses.replace(point(2, 10.0, status="failed"), message=text)
    rows = run([point(1, 10.0), failed]).rows
    written = results_frame(rows, commit="=1").to_csv(index=False)
    read = pd.read_csv(io.StringIO(written, newline=""))
    assert read["images_per_second"].tolist()[0] == pytest.approx(10.0, rel=0.1)
    for row in list(csv.reader(io.StringIO(written, newline="")))[1:]:
        begun = [one for one in row if re.match(r"\s*[=+@\-\uff1d]", one)]
        assert all(re.fullmatch(r"-?[0-9.e+-]+", one) for one in begun)
