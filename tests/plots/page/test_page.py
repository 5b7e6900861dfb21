"""The page has the run's data, escaped, and stays small for large runs."""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.trial import make
from plots.page.page import page
from plots.report import build
from results.rates import RateSamples
from results.record import Identity, Record
from results.repeat import RepeatSummary
from results.run import Run, load
from results.scaling import rows_of
from tests.support.pages.pages import HOSTILE, block, details, hostile, pace, run_of, unpacked
from tests.support.paths import ROOT
from tests.support.runs.records import points, record
from tests.support.runs.stores import stored

DEMO = ROOT / "docs" / "runs" / "demo"


def without_libraries(text: str) -> str:
    """Return the page without Plotly, which can contain anything in base64."""
    return text.replace(block(text, "plotly"), "")


def large(points: int, width: int, windows: int) -> Run:
    """Return a run of `points` points with many ranks and windows of uneven length."""
    commands = {f"worker-{n}": f"python -m bench.train_imagenet --rank {n} " * 9 for n in range(9)}
    found = []
    for number in range(points):
        seconds = [1 + (number * 7919 + at * 104729) % 9973 / 1e5 for at in range(windows)]
        each = tuple((one, 8 * width) for one in seconds)
        trial = make(
            {"network": "alexnet", "batch_per_device": 8, "devices": 1 + number % width}
            | {"kvstore": "dist_sync", "seed": number // width, "devices_per_worker": 1}
        )
        identity = Identity(
            name=trial.name, key=trial.key, repeat=0, code_hash="", data_manifest="", hosts=("h",)
        )
        paces = [pace(n, seconds[n % windows], 0.9 * seconds[n % windows]) for n in range(width)]
        found.append(
            RepeatSummary(
                trial=trial,
                identity=identity,
                status="ok",
                message="",
                emulated=False,
                started="",
                elapsed_seconds=1.0,
                accuracy=None,
                windows=each,
                dropped=1,
                samples=RateSamples(each=each[1:], windows=windows - 1),
                commands=commands,
                rank_speeds=tuple(paces),
            )
        )
    # By seeds, which have no base in each other.
    rows = [row for at in range(0, points, width) for row in rows_of(found[at : at + width])]
    return Run(folder=Path("r"), rows=rows, environment={})


def test_the_page_holds_results_csv_as_it_is(tmp_path: Path) -> None:
    stored(tmp_path, record([[1, 2.0, 2.1]]), record([[1, 1.2, 1.0]], devices=2))
    build(load(tmp_path))
    text = (tmp_path / "report" / "index.html").read_text()
    data = unpacked(text, "data")
    assert data["run"]["csv"] == (tmp_path / "report" / "results.csv").read_text()


def test_the_page_asks_for_nothing_from_outside() -> None:
    text = without_libraries(page(load(DEMO)))
    assert re.findall(r"(?:src|href)=[\"'](?!data:)|https?://|@import|url\(", text) == []


def test_what_hosts_and_logs_say_is_no_markup() -> None:
    bad = hostile(record([[1, 2.0]], devices=2, status="failed"))
    good = hostile(record([[1, 2.0, 2.1]]))
    environment = {"description": HOSTILE, "hosts": {HOSTILE: {HOSTILE: HOSTILE}}, "x": HOSTILE}
    text = page(run_of(good, bad, environment=environment, missing=(HOSTILE,)))
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert "<!--" not in without_libraries(text)
    assert unpacked(text, "data")["run"]["csv"].count("alert(1)") == 2
    assert details(text)[0]["repeats"][0]["ranks"]["host"] == [HOSTILE]


def test_text_that_no_file_can_hold_is_replaced() -> None:
    text = page(run_of(dataclasses.replace(record([[1, 2.0]], status="lost"), message="a\ud800b")))
    assert "a?b" in text


def test_the_page_has_no_control_character_that_html_forbids() -> None:
    assert not re.findall(r"[\x00-\x08\x0b\x0e-\x1f\x7f]", page(run_of(record([[1, 2.0, 2.1]]))))


def test_a_failed_point_stands_with_its_cause() -> None:
    text = page(run_of(record([[1, 2.0, 2.1]]), record([[1, 2.0]], devices=2, status="hung")))
    (cause,) = re.findall(r"<li><strong>alexnet local x2</strong>.*?</li>", text, re.DOTALL)
    assert "hung" in cause
    assert "broken" in cause
    (failed,) = unpacked(text, "data")["run"]["failed"]
    assert failed["row"] == 1


def test_points_that_are_missing_are_named() -> None:
    text = page(run_of(record([[1, 2.0, 2.1]]), missing=("alexnet local x2",)))
    assert re.search(r"alexnet local x2</strong> <span class=\"status\">not measured yet", text)


@pytest.mark.parametrize(
    "records",
    [
        [record([[1, 2.0]], status="failed")],
        [record([[1, 2.0]], status="failed", mode="test-io", data_train="d")],
        [record([[1, 2.0, 2.1]])],
        [record([[1, 2.0]])],
        [record([[1, 2.0, 2.1]] * 2, devices=2, kvstore="dist_sync")],
        [record([[1, 2.0, 2.1]], mode="test-io", data_train="d")],
        [record([[1, 2.0, 2.1]] * 2, devices=2, kvstore="dist_sync", mode="bandwidth")],
    ],
    ids=["failed", "failed input", "one", "one window", "no base", "input", "bandwidth"],
)
def test_a_run_with_little_in_it_still_has_a_page(records: Sequence[Record]) -> None:
    text = page(run_of(*records))
    trains = records[0].trial.mode == "synthetic"
    assert ('id="rate"' in text) == trains
    assert ("No figure: " in text) == (not trains)
    assert len(details(text)) == 1


def test_a_rehearsal_and_figures_from_elsewhere_say_so() -> None:
    rehearsed = page(run_of(record([[1, 2.0, 2.0]], engine="fake")))
    assert "<strong>SIMULATED.</strong>" in rehearsed
    assert "<h1>SIMULATED " in rehearsed
    assert rehearsed.count("</strong> (SIMULATED) <span") == 4
    told = page(run_of(dataclasses.replace(record([[1, 2.0, 2.0]]), source="a <b>book</b>")))
    assert "Not measured by mxscale:</strong> a &lt;b&gt;book&lt;/b&gt;" in told
    assert '<details class="warning">' not in told
    assert "<strong>SIMULATED.</strong>" not in told


def test_many_sources_are_counted_and_folded() -> None:
    records = [
        dataclasses.replace(one, source=f"imported from {number}.log")
        for number, one in enumerate(points({1: 10.0, 2: 20.0, 4: 40.0}))
    ]
    text = page(run_of(*records))
    assert text.count("Not measured by mxscale") == 1
    assert "3 sources: imported from 0.log and 2 more</summary>" in text
    assert text.count("<li>imported from") == 3


def test_the_machine_of_a_rehearsal_is_not_said_to_have_measured() -> None:
    known = {"environment": {"processor": "AMD EPYC"}}
    rehearsed = page(run_of(record([[1, 2.0, 2.0]], engine="fake"), **known))
    assert "simulated on AMD EPYC" in rehearsed
    assert "simulated on" not in without_libraries(page(run_of(record([[1, 2.0, 2.0]]), **known)))


def test_the_page_says_how_its_numbers_are_checked() -> None:
    assert ".venv/bin/fab report.verify --run RUN --digest DIGEST" in page(
        run_of(record([[1, 2.0, 2.1]]))
    )


def test_another_run_is_drawn_behind_under_its_name() -> None:
    one, other = run_of(record([[1, 2.0, 2.1]])), run_of(record([[1, 3.0, 3.1]]), folder=Path("b"))
    data = unpacked(page(one, over=other), "data")
    assert data["over"]["name"] == "b"
    assert data["over"]["csv"] != data["run"]["csv"]
    assert unpacked(page(one), "data")["over"] is None


def test_a_line_stands_where_the_second_host_begins() -> None:
    run = run_of(*points({devices: 100.0 * devices for devices in (8, 16, 32, 64)}))
    assert unpacked(page(run), "data")["run"]["second_host"] == pytest.approx(512**0.5)
    run = run_of(*points({devices: 100.0 * devices for devices in (8, 16)}))
    assert unpacked(page(run), "data")["run"]["second_host"] is None


def test_a_large_run_stays_below_4_mb_and_says_what_it_left_out() -> None:
    run = large(1000, 256, 100)
    text = page(run, static=lambda: f"<svg>{'x' * 990_000}</svg>")
    assert len(text.encode()) < 4_000_000
    (one,) = details(text)[0]["repeats"]
    assert one["windows"]["of"] == 100
    assert one["ranks"]["of"] == 256
    kept = len(one["ranks"]["rank"])
    assert 4 <= kept < 256
    assert one["ranks"]["slowest"] in one["ranks"]["rank"]
    assert "To keep this page small" in text


def test_the_same_run_gives_the_same_bytes() -> None:
    assert page(load(DEMO)) == page(load(DEMO))


def test_a_small_run_is_kept_whole() -> None:
    text = page(large(20, 16, 100))
    (one,) = details(text)[5]["repeats"]
    assert one["windows"]["at"] == list(range(100))
    assert one["ranks"]["rank"] == list(range(16))
    assert "To keep this page small" not in text
