"""A report that does not follow from its run fails, even with new digests."""

import base64
import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from invoke.context import Context
from PIL import Image
from PIL.PngImagePlugin import PngInfo

import fabfile as _fabfile
import plots.check
from launch.hosts import ROOT
from plots.check import file_difference, verify_report
from plots.report import EXTRA, build, choice
from results.cost.cost import NO_COSTS
from results.errors import StoreError
from results.integrity import digest
from results.run import Run, load, with_baseline
from tasks.report import costs_of
from tests.support.programs.commands import refusal
from tests.support.runs.records import record
from tests.support.runs.stores import stored

fabfile: Any = _fabfile
Forgery = Callable[[Path], object]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "run"
    seconds = [[1, *(1.0 + 0.01 * n for n in range(8))]]
    stored(folder, *(record(seconds, devices=n, devices_per_host=2) for n in (1, 2)))
    run = load(folder)
    build(run, costs_of(run, None))
    EXTRA["upstream-csv"](run, NO_COSTS)
    digest.write(folder, "code", choice=choice(run))
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(ROOT)
    return Path(shutil.copytree(made, tmp_path / "run"))


@pytest.fixture
def drawn_once(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verification draws the same pictures as `made` did, which other tests check."""

    def build_again(run: Run, *_: object, **__: object) -> None:
        shutil.copytree(made / "report", run.folder / "report")

    monkeypatch.setattr(plots.check, "build", build_again)


def exchange(name: str, old: str, new: str) -> Forgery:
    def forge(report: Path) -> None:
        text = (report / name).read_text()
        assert old in text
        (report / name).write_text(text.replace(old, new, 1))

    return forge


def packed(page: str, change: Callable[[str], str], level: int = 9, name: str = "details") -> str:
    """Return the page with other packed text: details of points, or Plotly."""
    start, kept, end = re.split(rf'(?<=id="{name}">)([^<]*)', page)
    text = change(gzip.decompress(base64.b64decode(kept)).decode())
    return start + base64.b64encode(gzip.compress(text.encode(), level)).decode() + end


def unlike(name: str, old: str, new: str) -> Forgery:
    """Change the first text in a packed part of the page."""

    def forge(report: Path) -> None:
        path = report / "index.html"
        text = packed(path.read_text(), lambda text: text.replace(old, new, 1), 9, name)
        assert text != packed(path.read_text(), str, 9, name)
        path.write_text(text)

    return forge


def first_number(name: str, pattern: str) -> Forgery:
    """Change the first digit of the first number that the pattern finds."""

    def forge(report: Path) -> None:
        text = (report / name).read_text()
        found = re.search(pattern, text)
        assert found is not None
        digit = str((int(found[1]) + 1) % 10)
        (report / name).write_text(text[: found.start(1)] + digit + text[found.end(1) :])

    return forge


def pixels(report: Path) -> None:
    picture = np.array(Image.open(report / "scaling.png"))
    picture[40:60, 40:60] = 0
    Image.fromarray(picture).save(report / "scaling.png", dpi=(144, 144))


def comment(report: Path) -> None:
    info = PngInfo()
    info.add_text("Comment", "twice as fast")
    Image.open(report / "scaling.png").save(report / "scaling.png", dpi=(144, 144), pnginfo=info)


def trail(report: Path) -> None:
    (report / "scaling.png").write_bytes((report / "scaling.png").read_bytes() + b"x")


def link(report: Path) -> None:
    (report / "index.html").rename(report.parent / "forged.html")
    (report / "index.html").symlink_to("../forged.html")


FORGERIES: dict[str, Forgery] = {
    "a cell of the page's table": first_number("index.html", r"<td[^>]*>(\d)[\d.]+<td"),
    "the data that the page draws": unlike("data", "alexnet,synthetic", "alexnet,real"),
    "details that the page has compressed": unlike("details", "1.07", "0.07"),
    "a word of the page": exchange("index.html", "All points", "No points"),
    "a script that is added": exchange("index.html", "</body>", "<script>alert(1)</script></body>"),
    "the page's own script": exchange("index.html", "Number(text)", "2*Number(text)"),
    "the library that draws": unlike("plotly", "plotly.js", "plotly_js"),
    "the path of a line": first_number("scaling.svg", r'<path d="M \d+\.(\d)'),
    "a text that is added to the figure": exchange("scaling.svg", "</svg>", "<text>2</text></svg>"),
    "pixels": pixels,
    "a comment in the picture": comment,
    "what follows the picture": trail,
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_page_or_figure_is_told_from_the_one_that_the_run_gives(
    made: Path, run: Path, name: str
) -> None:
    FORGERIES[name](run / "report")
    files = ("index.html", "scaling.svg", "scaling.png")
    wrong = [file_difference(run / "report" / one, made / "report" / one) for one in files]
    assert len([one for one in wrong if one]) == 1


WHOLE: dict[str, tuple[Forgery, str]] = {
    "page": (FORGERIES["a word of the page"], "index.html line "),
    "figure": (FORGERIES["a text that is added to the figure"], "scaling.svg line "),
    "picture": (FORGERIES["pixels"], "scaling.png: pixels differ"),
    "text": (exchange("report.md", "| alexnet", "| Alexnet"), "report.md line "),
    "table": (exchange("results.csv", ",local,", ",device,"), "results.csv row 1 "),
    "upstream": (exchange("upstream/alexnet.csv", "num_gpus", "gpus"), "alexnet.csv line 1: "),
    "threads": (
        lambda report: shutil.copy(report / "scaling.svg", report / "threads.svg"),
        "threads.svg: not part of this run's report",
    ),
}


def test_a_forged_report_fails_though_its_digests_were_written_again(run: Path) -> None:
    kept = digest.load(run)
    assert kept is not None
    for forge, _ in WHOLE.values():
        forge(run / "report")
    assert digest.write(run, "code", choice=kept.choice) == kept.digest
    wrong = verify_report(run, kept.digest).wrong
    for name, (_, said) in WHOLE.items():
        assert any(said in one for one in wrong), name
    assert all(": modified" not in one for one in wrong)


@pytest.mark.usefixtures("drawn_once")
def test_a_link_in_place_of_the_page_fails(run: Path) -> None:
    link(run / "report")
    expected = digest.write(run, "code", choice=choice(load(run)))
    assert "index.html: not a regular file" in verify_report(run, expected).wrong


def test_an_honest_report_holds_however_it_is_compressed(run: Path) -> None:
    page = run / "report" / "index.html"
    page.write_text(packed(page.read_text(), str, 1))
    picture = run / "report" / "scaling.png"
    Image.open(picture).save(picture, dpi=(144, 144), compress_level=1)
    expected = digest.write(run, "code", choice=choice(load(run)))
    found = verify_report(run, expected)
    assert (found.wrong, found.lacking) == ([], [])


@pytest.mark.usefixtures("drawn_once")
def test_the_last_digit_of_a_computed_number_is_no_forgery(run: Path) -> None:
    page = run / "report" / "index.html"

    def other(text: str) -> str:
        found = re.search(r"alexnet,synthetic.*?,(\d\.\d{14,})", text)
        assert found is not None
        last = str((int(found[1][-1]) + 1) % 10)
        return text[: found.end(1) - 1] + last + text[found.end(1) :]

    page.write_text(packed(page.read_text(), other, name="data"))
    expected = digest.write(run, "code", choice=choice(load(run)))
    assert verify_report(run, expected).wrong == []


@pytest.mark.usefixtures("drawn_once")
@pytest.mark.parametrize("name", ["results.csv", "index.html"])
def test_a_number_in_digits_that_only_python_reads_is_a_forgery(run: Path, name: str) -> None:
    def other(text: str) -> str:
        found = re.search(r"\d{2}\.\d{9,}", text)
        assert found is not None
        wide = "".join(chr(0xFF10 + int(one)) if one.isdigit() else one for one in found[0])
        assert float(wide) == float(found[0])
        return text.replace(found[0], wide, 1)

    path = run / "report" / name
    text = path.read_text()
    path.write_text(packed(text, other, name="data") if name == "index.html" else other(text))
    digest.write(run, "code", choice=choice(load(run)))
    assert verify_report(run).wrong


@pytest.mark.usefixtures("drawn_once")
def test_a_file_that_is_of_no_report_fails_with_a_digest(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "report" / "page.html").write_text("twice as fast")
    expected = digest.write(run, "code", choice=choice(load(run)))
    code, line = refusal(fabfile.report.report_verify, run=str(run), digest=expected)
    assert (code, "part of its report was not checked" in line) == (2, True)
    assert "report/page.html: not part of a report, not checked" in capsys.readouterr().out


def forged(run: Path, **fields: Any) -> str:
    """Rewrite report/digests.json as a forger would; return the run's digest."""
    path = run / "report" / "digests.json"
    data = json.loads(path.read_text()) | fields
    for name in ("check", "format"):
        data.pop(name)
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    check = {"check": hashlib.sha256(text.encode()).hexdigest()}
    path.write_text(json.dumps(data | check | {"format": digest.FORMAT} | fields))
    return str(data["digest"])


@pytest.mark.parametrize("number", [1, 99])
def test_a_report_of_another_format_is_not_checked_and_fails_with_a_digest(
    run: Path, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "report" / "results.csv").write_text("other,columns\n")
    digest.write(run, "code", choice=choice(load(run)))
    expected = forged(run, format=number)
    code, _ = refusal(fabfile.report.report_verify, run=str(run), digest=expected)
    assert code == 2
    said = f"report not checked: built by format {number}; run fab report.build"
    assert said in capsys.readouterr().out.splitlines()
    assert verify_report(run, expected).wrong == []
    fabfile.report.report_verify.body(Context(), run=str(run))
    assert said in capsys.readouterr().out.splitlines()


def test_a_number_that_is_edited_in_digests_alone_is_another_format(run: Path) -> None:
    path = run / "report" / "digests.json"
    path.write_text(path.read_text().replace(f'"format": {digest.FORMAT}', '"format": 99'))
    found = verify_report(run)
    line = "report not checked: built by format 99; run fab report.build"
    assert (found.wrong, found.lacking) == ([], [line])


@pytest.mark.parametrize("name", ["index.html", "report.md"])
def test_without_digests_the_format_is_read_from_the_page_or_the_text(run: Path, name: str) -> None:
    (run / "report" / "digests.json").unlink()
    path = run / "report" / name
    number = rf'(?<=report-format" content="){digest.FORMAT}|(?<=report-format ){digest.FORMAT}'
    text, count = re.subn(number, "99", path.read_text(), count=1)
    assert count == 1
    path.write_text(text)
    if name == "report.md":
        (run / "report" / "index.html").unlink()
    (line,) = verify_report(run).lacking
    assert line == "report not checked: built by format 99; run fab report.build"


@pytest.mark.usefixtures("drawn_once")
def test_a_number_forged_in_the_page_alone_fails(run: Path) -> None:
    exchange("index.html", f'content="{digest.FORMAT}"', 'content="99"')(run / "report")
    expected = digest.write(run, "code", choice=choice(load(run)))
    assert any("index.html line " in one for one in verify_report(run, expected).wrong)


@pytest.mark.usefixtures("drawn_once")
def test_other_library_versions_are_told_and_fail_with_a_digest(run: Path) -> None:
    versions = dict(choice(load(run)).libraries)
    other = {"place": "", "libraries": versions | {"matplotlib": "1.0"}}
    assert (
        verify_report(run, forged(run, choice=other)).lacking == []
    )  # the files are the same here
    exchange("scaling.svg", "</svg>", "<text>2</text></svg>")(run / "report")
    found = verify_report(run, forged(run, choice=other))
    (line,) = found.lacking
    assert line.startswith(
        "scaling.svg: not compared: drawn by other library versions: matplotlib "
    )


def test_a_report_knows_its_baseline_and_the_run_behind_it(run: Path) -> None:
    named = "local x2"
    based, behind = with_baseline(load(run), named), with_baseline(load(run), named)
    build(based, costs_of(based, None), behind)
    expected = digest.write(run, "code", choice=choice(based, named, "reference:tutorial"))
    found = verify_report(run, expected, over=load(run))
    assert (found.wrong, found.lacking) == ([], [])
    digest.write(run, "code", choice=choice(based, named, "elsewhere"))
    found = verify_report(run, expected)
    assert found.wrong == []
    assert (
        "index.html: not compared: drawn over 'elsewhere'. Name that run: --over RUN"
        in found.lacking
    )
    digest.write(run, "code", choice=choice(based, "local x1", ""))
    assert any("results.csv row 1" in one for one in verify_report(run, expected).wrong)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "../run"},
        {"name": ".."},
        {"choice": {"place": "/etc"}},
        {"choice": {"place": "../run"}},
        {"choice": {"libraries": 3}},
        {"format": "new"},
        {"format": 1e999},
    ],
)
def test_digests_that_hold_what_no_report_has_cannot_be_read(
    run: Path, fields: dict[str, Any]
) -> None:
    forged(run, **fields)
    with pytest.raises(StoreError, match=r"digests\.json"):
        digest.load(run)


@pytest.mark.usefixtures("drawn_once")
@pytest.mark.parametrize("fields", [{"name": ".."}, {"choice": {"baseline": "x"}}])
def test_digests_that_hold_what_no_report_has_fail(run: Path, fields: dict[str, Any]) -> None:
    expected = forged(run, **fields)
    assert any("digests.json" in one for one in verify_report(run, expected).wrong)
