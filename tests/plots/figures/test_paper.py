"""A panel for a paper: its size, fonts, caption and refusals."""

import re
import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bench.errors import SpecError
from plots.figures.fan import WORD
from plots.figures.paper import (
    PANELS,
    caption,
    check_panel,
    draw,
    of_networks,
    parse_format,
    parse_width,
    save,
)
from results.comparison.references import reference
from results.errors import StoreError
from results.prediction.calibration import add, stored
from results.prediction.forecast import counts_up_to, predict
from results.prediction.limits import Limits
from results.prediction.series import series_of
from results.quality import Quality
from results.record import Record
from results.run import Run
from tests.support.runs.scenes import point, published, run, three
from tests.support.runs.steps import rows

WIDTH = 88 / 25.4
POINTS = 88 / 25.4 * 72


def drawn(tmp_path: Path, name: str, study: Run, panel: str = "throughput") -> bytes:
    path = tmp_path / name
    save(draw(study, panel, WIDTH), caption(study, panel), path)
    return path.read_bytes()


def simulated() -> list[Record]:
    return [point(n, 10.0 * n, engine="fake") for n in (1, 2)]


def two_stores() -> list[Record]:
    """Return two networks with two stores on one and two devices."""
    return [
        point(n, rate * n, kvstore=store, network=network)
        for network in ("alexnet", "mobilenet")
        for store, rate in (("local", 10.0), ("dist_sync", 9.0))
        for n in (1, 2)
    ]


def labels(figure: Any) -> list[str]:
    return [one.get_text() for one in figure.axes[0].texts if one.get_text() != "ideal"]


def test_a_png_is_88_mm_wide_at_300_dpi(tmp_path: Path) -> None:
    data = drawn(tmp_path, "a.png", run(three()))
    (width,) = struct.unpack(">I", data[16:20])
    assert width == int(WIDTH * 300)
    place = data.index(b"pHYs")
    per_metre = struct.unpack(">I", data[place + 4 : place + 8])[0]
    assert per_metre * 0.0254 == pytest.approx(300, abs=0.01)


def test_an_svg_is_88_mm_wide_and_needs_no_font(tmp_path: Path) -> None:
    text = drawn(tmp_path, "a.svg", run(three())).decode()
    found = re.search(r'<svg [^>]*width="([0-9.]+)pt"', text)
    assert found
    assert float(found[1]) == pytest.approx(POINTS, abs=0.01)
    assert "<text" not in text


def test_a_pdf_is_88_mm_wide_and_embeds_a_truetype_font(tmp_path: Path) -> None:
    data = drawn(tmp_path, "a.pdf", run(three()))
    found = re.search(rb"/MediaBox \[ ?0 0 ([0-9.]+)", data)
    assert found
    assert float(found[1]) == pytest.approx(POINTS, abs=0.01)
    assert b"/FontFile2" in data
    assert b"/Type3" not in data


@pytest.mark.parametrize("form", ["pdf", "svg", "png"])
def test_a_figure_has_the_same_bytes_twice(tmp_path: Path, form: str) -> None:
    first, second = (drawn(tmp_path, f"{name}.{form}", run(three())) for name in "ab")
    assert first == second


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("panel", [one for one in PANELS if one != "prediction"])
def test_labels_at_the_ends_name_every_line_and_no_legend_does(panel: str, linear: bool) -> None:
    figure = draw(run(two_stores()), panel, WIDTH, linear)
    assert len(labels(figure)) == 4
    assert figure.axes[0].get_legend() is None
    assert figure.legends == []
    scale = "linear" if linear or panel == "efficiency" else "log"
    assert figure.axes[0].get_yscale() == scale
    assert figure.axes[0].get_xscale() == ("linear" if linear else "log")


def test_text_is_legible_at_88_mm() -> None:
    axes: Any = draw(run(published()), "speedup", WIDTH).axes[0]
    texts = [*axes.texts, *axes.get_xticklabels(), axes.xaxis.label, axes.yaxis.label]
    assert min(one.get_fontsize() for one in texts) >= 7


def test_points_on_the_same_devices_stand_side_by_side() -> None:
    for linear in (False, True):
        axes: Any = draw(run(two_stores()), "throughput", WIDTH, linear).axes[0]
        places = [float(bars.lines[0].get_xdata()[-1]) for bars in axes.containers]
        pixels = sorted(axes.transData.transform([(x, 1) for x in places])[:, 0])
        sizes = [bars.lines[0].get_markersize() for bars in axes.containers]
        gaps = [b - a for a, b in pairwise(pixels)]
        assert min(gaps) > 0.8 * max(sizes) * axes.figure.dpi / 72


def test_error_bars_are_behind_the_lines() -> None:
    axes: Any = draw(run(two_stores()), "throughput", WIDTH).axes[0]
    bars = [bar for one in axes.containers for bar in (*one.lines[1], *one.lines[2])]
    assert max(bar.get_zorder() for bar in bars) < min(
        one.lines[0].get_zorder() for one in axes.containers
    )


def test_a_long_line_to_a_label_is_gray_and_looks_like_no_data() -> None:
    alone = point(1, 5, kvstore="dist_sync")
    axes: Any = draw(run([*three(), alone]), "throughput", WIDTH).axes[0]
    joined = [one for one in axes.lines if one.get_transform() == axes.transAxes]
    colours = {float(one.get_xdata()[0]) < 0.6: one.get_color() for one in joined}
    assert colours == {True: "#aaaaaa", False: axes.lines[0].get_color()}


def test_the_mean_step_time_is_the_global_batch_over_the_throughput() -> None:
    axes: Any = draw(run(three()), "step", WIDTH).axes[0]
    heights = list(axes.containers[0].lines[0].get_ydata())
    assert heights == pytest.approx([8 / 10, 16 / 18, 32 / 30], rel=0.01)


def test_a_caption_has_n_intervals_machine_commit_and_baseline() -> None:
    text = caption(run(three()), "speedup")
    for part in ("95 % CI", "n = 1 per point", "AMD EPYC", "MXNet 1.9.1", "commit abcdef0"):
        assert part in text
    assert "Baseline: local x1." in text
    assert "Speed-up vs 1 device by number of devices (logarithmic axes)." in text


def test_a_caption_names_what_the_environment_lacks() -> None:
    text = caption(run(three(), environment={}), "throughput")
    assert "commit unknown" in text
    assert "MXNet version unknown" in text


def test_a_caption_names_the_points_that_are_not_drawn() -> None:
    failed = point(8, 50, status="hung", devices_per_host=8)
    lonely = point(2, 20, network="mobilenet")
    text = caption(run([*three(), failed, lonely]), "speedup")
    assert "Cross: no result for alexnet local x8." in text
    assert "Not shown: mobilenet local x2." in text


def test_a_caption_explains_the_marks_of_quality() -> None:
    study = run(three())
    found = {}
    for quality in Quality:
        rows = [replace(row, quality=quality) for row in study.rows]
        text = caption(replace(study, rows=rows), "throughput")
        assert f"Quality of the points: 3 {quality}." in text
        found[quality] = ("Pale: indicative." in text, "Ringed: doubtful" in text)
    assert found == {
        Quality.PUBLISHABLE: (False, False),
        Quality.INDICATIVE: (True, False),
        Quality.DOUBTFUL: (False, True),
    }


def test_a_simulation_is_marked_in_figure_and_caption() -> None:
    study = run(simulated())
    axes: Any = draw(study, "throughput", WIDTH).axes[0]
    assert axes.get_title(loc="left") == "SIMULATED, not measured"
    text = caption(study, "throughput")
    assert "SIMULATED" in text
    assert "Measured" not in text


def test_imported_figures_are_marked_in_figure_and_caption() -> None:
    study = run([replace(one, source="a log") for one in three()])
    axes: Any = draw(study, "throughput", WIDTH).axes[0]
    assert axes.get_title(loc="left").startswith("imported")
    assert "Imported, not measured by mxscale; source: a log." in caption(study, "throughput")


def test_caption_files_stand_beside_the_figure(tmp_path: Path) -> None:
    study = run(three())
    paths = save(draw(study, "step", WIDTH), caption(study, "step"), tmp_path / "a_b.pdf")
    assert [path.name for path in paths] == ["a_b.pdf", "a_b-caption.txt", "a_b-caption.tex"]
    assert paths[1].read_text() == f"{caption(study, 'step')}\n"
    tex = paths[2].read_text()
    assert r"\includegraphics[width=88mm]{\detokenize{a_b.pdf}}" in tex
    assert r"95 \% CI" in tex


def test_networks_are_selected_by_name() -> None:
    chosen = of_networks(run(two_stores()), ["mobilenet"])
    assert {row.trial.label for row in chosen.rows} == {"mobilenet"}
    with pytest.raises(SpecError, match="did you mean 'mobilenet'"):
        of_networks(run(two_stores()), ["mobilnet"])


def test_widths_have_units_and_bounds() -> None:
    for text in ("88mm", "88 mm", "8.8cm", "88"):
        assert parse_width(text) == pytest.approx(WIDTH)
    assert parse_width("3.5in") == pytest.approx(3.5)
    for text in ("0mm", "8mm", "5m", "-88mm", "1e9", "9999mm", "", "nan"):
        with pytest.raises(SpecError, match="--width: expected a width of 50 to 400 mm"):
            parse_width(text)


def test_the_suffix_of_the_file_selects_the_format() -> None:
    assert [parse_format("", one) for one in ("", "a.svg", "A.PNG")] == ["pdf", "svg", "png"]
    assert parse_format("svg", "") == "svg"
    for name, output, expected in (
        ("jpg", "", "unknown format 'jpg'"),
        ("", "a.jpg", "expected a file that ends in .pdf, .svg, .png"),
        ("pdf", "a.png", "expected a .pdf file"),
    ):
        with pytest.raises(SpecError, match=re.escape(expected)):
            parse_format(name, output)


def test_an_unknown_panel_is_named() -> None:
    with pytest.raises(SpecError, match="unknown panel 'speed-up'; did you mean 'speedup'"):
        check_panel("speed-up")


def refused(records: Sequence[Record], panel: str) -> str:
    with pytest.raises(StoreError) as found:
        draw(run(records), panel, WIDTH)
    return str(found.value)


def test_a_panel_without_points_is_refused() -> None:
    failed = [point(1, 10, status="failed")]
    assert "expected a training point with a result, got none" in refused(failed, "throughput")
    baseless = [point(n, 10 * n) for n in (2, 4)]
    assert "no point has a result on 1 device to compare with" in refused(baseless, "speedup")


def test_more_lines_than_are_readable_are_refused() -> None:
    many = [point(n, 10 * n, batch_per_device=batch) for batch in range(8, 34) for n in (1, 2)]
    assert "26 lines; at most 24 are readable" in refused(many, "throughput")


def test_a_budget_has_a_bar_per_point_that_ends_at_the_whole_step(tmp_path: Path) -> None:
    study = replace(run([]), rows=rows())
    figure = draw(study, "budget", WIDTH)
    bars: list[Any] = list(figure.axes[0].patches)
    ends = [bar.get_x() + bar.get_width() for bar in bars]
    assert ends == pytest.approx([100, 50, 100, 99.5, 100, 100], abs=0.1)
    names = [one.get_text() for one in figure.axes[0].get_yticklabels()]
    assert names == [row.name for row in study.rows]
    parts = [one.get_text() for one in figure.legends[0].get_texts()]
    assert parts == ["compute", "server", "cores"]
    paths = save(figure, caption(study, "budget"), tmp_path / "b.pdf")
    assert paths[1].read_text().startswith("Parts of a step's time: computing as on one device")


def test_points_without_a_budget_are_refused() -> None:
    assert "expected a point with a budget of its step, got none" in refused(three(), "budget")


def test_predictions_are_dashed_and_labeled_in_their_own_panel(tmp_path: Path) -> None:
    few = [row for row in reference("tutorial").rows if row.trial.layout.devices <= 16]
    study = Run(folder=tmp_path, rows=few, environment={})
    with pytest.raises(StoreError, match="expected predictions, got none"):
        draw(study, "prediction", WIDTH)
    (series,) = series_of(few, "alexnet")
    found = [predict(series, n, Limits()) for n in counts_up_to(series, 64)]
    add(tmp_path, stored(series, found, Limits()))
    figure = draw(study, "prediction", WIDTH)
    assert WORD in labels(figure)
    assert "Dashed: PREDICTION, not measured" in caption(study, "prediction")
    assert WORD not in labels(draw(study, "throughput", WIDTH))
