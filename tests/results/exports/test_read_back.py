"""The tools that exports are made for read them."""

import operator
import os
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from results.run import Run, load
from results.scaling import ScalingRow
from tests.support.paths import ROOT
from tests.support.runs.exports import HOSTILE, REHEARSED, bad, good, needed, repeat, run_of


def row_of(run: Run, name: str) -> ScalingRow:
    return next(row for row in run.rows if row.trial.name == name)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    missing = repeat([[1, 1.0]], devices=4, devices_per_host=4)
    return run_of(tmp_path / "run & <b>", good() + bad(), [missing])


@pytest.fixture
def rehearsed(tmp_path: Path) -> Run:
    return run_of(tmp_path / "rehearsed", [repeat([[1, 1.0, 1.0]], **REHEARSED)])


def scalars(folder: Path) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """Return run, tag and (step, value)s by TensorBoard's reader."""
    from tensorboard.backend.event_processing.event_multiplexer import (  # noqa: PLC0415
        EventMultiplexer,
    )

    reader = EventMultiplexer().AddRunsFromDirectory(str(folder))
    reader.Reload()
    return {
        name: {
            tag: [(one.step, one.value) for one in reader.Scalars(name, tag)]
            for tag in tags["scalars"]
        }
        for name, tags in reader.Runs().items()
    }


def test_tensorboard_reads_rates_by_devices_and_series_by_window(run: Run, tmp_path: Path) -> None:
    tensorboard = needed("tensorboard")
    for _ in range(2):  # the second takes the place of the first
        (home,) = tensorboard.write(run, tmp_path)
    found = scalars(home)
    curve = found["scaling_alexnet_synthetic_local_float32"]
    rates = [row_of(run, f"alexnet local x{n}").rate.images_per_second for n in (1, 2)]
    assert curve["images_per_second"] == [(1, rates[0]), (2, pytest.approx(rates[1]))]
    assert curve["efficiency/device"] == [(1, 1.0), (2, pytest.approx(8 / 1.3 / 8))]
    series = found[os.path.join("alexnet_local_x2", "repeat_2")]  # noqa: PTH118 - as it names runs
    assert series["window_seconds"] == [(0, 1.0), (1, pytest.approx(1.3)), (2, pytest.approx(1.3))]
    assert [loss for _, loss in series["loss"]] == pytest.approx([2.0, 1.9, 1.8])
    assert not [name for name in found if "vgg" in name]


def test_junit_has_a_case_for_every_point(run: Run, tmp_path: Path) -> None:
    junit = needed("junit")
    (path,) = junit.write(run, tmp_path)
    (suite,) = ElementTree.fromstring(path.read_bytes())
    counts = {name: suite.get(name) for name in ("name", "tests", "failures", "skipped")}
    assert counts == {"name": "run & <b>", "tests": "4", "failures": "1", "skipped": "1"}
    strict = {name: suite.get(name) for name in ("id", "package", "hostname", "timestamp")}
    assert all(strict.values())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", strict["timestamp"] or "")
    cases = {str(case.get("name")): case for case in suite.iter("testcase")}
    assert cases["alexnet local x2"].get("time") == "19.0"
    assert "images_per_second: 12.3077" in str(cases["alexnet local x2"].findtext("system-out"))
    failure = cases["vgg-16 local x1"].find("failure")
    assert failure is not None
    assert failure.get("type") == "hung"
    assert str(failure.get("message")).startswith("<script>\ufffd]]>")
    assert cases["alexnet local x4"].find("skipped") is not None


def samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415

    return {
        family.name: [(one.labels, one.value) for one in family.samples]
        for family in text_string_to_metric_families(text)
    }


def test_prometheus_reads_gauges_with_labels(run: Run, tmp_path: Path) -> None:
    prometheus = needed("prometheus")
    (path,) = prometheus.write(run, tmp_path)
    found = samples(path.read_text())
    rates = {labels["devices"]: value for labels, value in found["mxscale_images_per_second"]}
    assert rates == {"1": 8.0, "2": pytest.approx(16 / 1.3)}
    ((labels, value),) = [
        one
        for one in found["mxscale_efficiency"]
        if one[0]["devices"] == "2" and one[0]["base"] == "device"
    ]
    assert value == pytest.approx(8 / 1.3 / 8)
    assert (labels["run"], labels["standing"]) == ("run & <b>", "measured")
    for end, wanted in (("low", operator.le), ("high", operator.ge)):
        ends = {(one["devices"], one["base"]): v for one, v in found[f"mxscale_efficiency_{end}"]}
        assert wanted(ends["2", "device"], value)
    assert [value for _, value in found["mxscale_point_ok"]] == [1, 1, 0]
    assert [one["quality"] for one, _ in found["mxscale_point_quality"]] == ["indicative"] * 2
    assert found["mxscale_points_missing"] == [({"run": "run & <b>"}, 1)]
    assert "NaN" not in path.read_text()


def test_prometheus_reads_any_name_of_a_run(tmp_path: Path) -> None:
    prometheus = needed("prometheus")
    name = 'a "b"\n\\ {c="d"} \x07'
    found = samples(prometheus.text(run_of(tmp_path / name, good())))
    assert found["mxscale_points_missing"][0][0]["run"] == name.replace("\x07", "\ufffd")


def test_a_badge_is_a_line_and_a_picture_that_asks_no_host(tmp_path: Path) -> None:
    badge = needed("badge")
    picture, line = badge.write(run_of(tmp_path / "a run", good() + bad()), tmp_path)
    words = "alexnet x2: 12.3 images/s, 77 % [74, 80] of ideal"
    escaped = words.replace("[", r"\[").replace("]", r"\]")
    assert line.read_text() == f"![{escaped}](a%20run.badge.svg)\n"
    root = ElementTree.fromstring(picture.read_text())
    texts = [text for one in root.iter() if (text := (one.text or "").strip())]
    assert set(texts) == set(words.split(": "))
    assert set(re.findall(r"https?://[^\"]+", picture.read_text())) == {
        "http://www.w3.org/2000/svg"
    }


def test_the_badge_is_of_the_most_devices_and_then_of_the_slowest() -> None:
    badge = needed("badge")
    from results.exports.point import training_points  # noqa: PLC0415

    point = badge.headline(training_points(load(ROOT / "docs" / "runs" / "demo")))
    assert badge.label(point) == "resnet-152 x2"


def test_a_rehearsal_says_so_in_every_format(rehearsed: Run, tmp_path: Path) -> None:
    for module in ("mllog", "tensorboard", "junit", "prometheus", "badge"):
        needed(module).write(rehearsed, tmp_path)
    logs = [path.read_text() for path in tmp_path.glob("mllog/*/*/result_0.txt")]
    assert all("mxscale rehearsal" in line for line in logs[0].splitlines())
    assert all(
        name.startswith("REHEARSAL_") for name in scalars(tmp_path / "tensorboard" / "rehearsed")
    )
    text = {path.name: path.read_text() for path in tmp_path.glob("rehearsed.*")}
    assert 'name="alexnet local x1 [rehearsal]"' in text["rehearsed.junit.xml"]
    assert 'standing="measured"' not in text["rehearsed.prom"]
    assert text["rehearsed.badge.md"].startswith("![REHEARSAL: ")
    assert "REHEARSAL" in text["rehearsed.badge.svg"]


def test_imported_figures_name_their_source_whatever_it_is(tmp_path: Path) -> None:
    junit = needed("junit")
    path = tmp_path / "imported"
    ElementTree.fromstring(
        text := junit.text(run_of(path, [repeat([[1, 1.0, 1.0]], source=HOSTILE)]))
    )
    assert "alexnet local x1 [imported]" in text
    assert "source: &lt;script&gt;\ufffd]]&gt;" in text
