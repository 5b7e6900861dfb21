"""The figure shows measured, oversubscribed and missing points."""

import dataclasses
import io
import itertools
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.text import Text

from plots.figures.axes import readable_counts
from plots.figures.caption import caption
from plots.figures.labels import spread
from plots.figures.model import failed_points, figure_model, lines
from plots.figures.panels import RATE
from plots.figures.panels import draw as draw_panel
from plots.figures.scaling import draw, save
from results.record import Record
from results.scaling import scaling
from tests.support.goldens import assert_golden
from tests.support.pages.figures import panels, texts
from tests.support.runs.records import record
from tests.support.runs.scenes import emulated, point, published, run, three

DIST: dict[str, Any] = {"kvstore": "dist_sync", "devices_per_host": 4}


@pytest.mark.pythons
def test_the_svg_of_three_points_is_as_kept(tmp_path: Path) -> None:
    study = run(three())
    svg, _ = save(draw(study.rows, "study: how it scales", caption(study)), tmp_path)
    assert_golden("three.svg", svg.read_text(encoding="utf-8"))


@pytest.mark.pythons
def test_the_svg_of_the_published_table_is_as_kept(tmp_path: Path) -> None:
    study = run(published())
    svg, _ = save(draw(study.rows, "study: how it scales", caption(study)), tmp_path)
    assert_golden("published.svg", svg.read_text(encoding="utf-8"))


@pytest.mark.parametrize("dpi", [72, 144])
def test_the_figure_is_laid_out_once_and_nothing_is_cut_off(dpi: int) -> None:
    study = run(published())
    figure = draw(study.rows, "study: how it scales", caption(study))
    assert figure.get_layout_engine() is None
    figure.set_dpi(dpi)  # of the SVG and of the PNG
    figure.draw_without_rendering()
    page = figure.bbox
    shown = [one for one in figure.findobj(Text) if isinstance(one, Text) and one.get_text()]
    boxes = [one.get_window_extent() for one in shown if one.get_visible()]
    assert len(boxes) > 20
    assert all(page.x0 <= box.x0 and box.x1 <= page.x1 for box in boxes)
    assert all(page.y0 <= box.y0 and box.y1 <= page.y1 for box in boxes)


def test_a_dashed_line_stands_between_the_last_point_on_one_host_and_the_next() -> None:
    shown = figure_model(scaling(published()))
    assert shown.second_host == pytest.approx((16 * 32) ** 0.5)
    for axes in panels(published()):
        (border,) = [
            line for line in axes.lines if list(line.get_xdata()) == [shown.second_host] * 2
        ]
        assert border.get_linestyle() == "--"
    assert figure_model(scaling(three())).second_host is None


def test_a_point_without_a_number_is_a_cross_on_the_axis_in_its_networks_colour() -> None:
    hung = point(8, 50, status="hung", **DIST)
    lost = point(8, 50, status="lost", network="vgg", num_layers=16, **DIST)
    (line,) = lines(scaling([*three(), hung, lost]))
    first, second = failed_points(scaling([*three(), hung, lost]))
    assert (first.colour == line.colour, second.colour == line.colour) == (True, False)
    for axes in panels([*three(), hung, lost]):
        marks = [one for one in axes.lines if one.get_marker() == "x"]
        assert [list(one.get_xdata()) for one in marks] == [[8], [8]]
        assert [int(tick) for tick in axes.get_xticks()] == [1, 2, 4, 8]
        heights = [
            axes.transAxes.inverted().transform(one.get_transform().transform((8, y)))[1]
            for one in marks
            for y in one.get_ydata()
        ]
        assert heights[0] == pytest.approx(0)
        assert heights[1] > 0


def test_the_ideal_of_a_network_is_its_one_device_rate_times_devices() -> None:
    (ideal,) = figure_model(scaling(three())).ideals
    assert ideal.points == pytest.approx({1: 10, 2: 20, 4: 40})
    rate, speedup = panels(three())[:2]
    dotted = [one for one in rate.lines if one.get_linestyle() == ":" or one.is_dashed()]
    assert list(dotted[0].get_ydata()) == pytest.approx([10, 20, 40])
    diagonal = [one for one in speedup.lines if one.is_dashed()]
    assert list(diagonal[0].get_xdata()) == list(diagonal[0].get_ydata()) == [1, 4]


def test_reading_alone_is_a_ceiling_that_grows_with_hosts() -> None:
    reading = [
        point(1, rate, mode="test-io", data_train="d", data_nthreads=n)
        for n, rate in ((1, 20.0), (4, 45.0))
    ]
    two_hosts = point(8, 60, **DIST)
    (ceiling,) = figure_model(scaling([*three(), two_hosts, *reading])).inputs
    assert ceiling.points == pytest.approx({1: 45, 2: 45, 4: 45, 8: 90})
    assert "input-pipeline limit" in texts(panels([*three(), two_hosts, *reading])[0])


def test_reading_images_of_another_size_is_no_ceiling() -> None:
    reading = point(1, 20, mode="test-io", data_train="d", image_shape=(3, 299, 299))
    assert figure_model(scaling([*three(), reading])).inputs == ()


def test_a_ceiling_far_above_is_told_and_leaves_the_axis_alone() -> None:
    reading = point(1, 5000, mode="test-io", data_train="d")
    rate = panels([*three(), reading])[0]
    assert rate.get_ylim()[1] < 100
    assert any("5000 images/s" in text for text in texts(rate))


def test_hollow_points_are_those_that_were_emulated() -> None:
    rows = emulated(scaling(three()), 4)
    axes: Any = draw(rows, "t", "f").axes[0]
    faces = {
        float(x): bars.lines[0].get_markerfacecolor()
        for bars in axes.containers
        for x in bars.lines[0].get_xdata()
    }
    assert [faces[n] == "white" for n in (1.0, 2.0, 4.0)] == [False, False, True]


def many() -> list[Record]:
    """Return fourteen lines that end close to each other."""
    networks = [("alexnet", None), ("vgg", 16), ("vgg", 19), ("resnet", 50), ("resnet", 101)]
    networks += [("mobilenet", None), ("inception-v3", None)]
    return [
        point(n, 10 * n, kvstore=store, network=name, num_layers=layers, devices_per_host=8)
        for name, layers in networks
        for store in ("local", "dist_sync")
        for n in (1, 2, 4)
    ]


def test_labels_at_the_ends_of_lines_do_not_cover_each_other() -> None:
    figure: Any = draw(scaling(many()), "t", "f")
    figure.draw_without_rendering()
    for axes in figure.axes[:3]:
        # An annotation's own extent holds its leader, too.
        boxes = [Text.get_window_extent(one) for one in axes.texts if "," in one.get_text()]
        assert len(boxes) == 14
        spans = sorted((box.y0, box.y1) for box in boxes)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))


def test_a_run_in_which_all_failed_says_by_crosses_what_was_tried(tmp_path: Path) -> None:
    hung = [dataclasses.replace(one, status="hung") for one in three()]
    figure = draw(scaling(hung), "title", "footer")
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["alexnet: no result"]
    for axes in figure.axes:
        assert [line.get_xdata() for line in axes.lines if line.get_marker() == "x"] == [
            [1],
            [2],
            [4],
        ]
        assert [float(tick) for tick in axes.get_yticks()] == []
    assert [path.name for path in save(figure, tmp_path)] == ["scaling.svg", "scaling.png"]


def test_more_lines_than_labels_have_room_are_named_by_the_legend_alone() -> None:
    records = [point(n, 10 * n, env=(f"A={k}",)) for k in range(24) for n in (1, 2)]
    figure: Any = draw(scaling(records), "t", "f")
    assert not any("A=" in text for axes in figure.axes for text in texts(axes))
    (legend,) = figure.legends
    assert sum("A=" in text.get_text() for text in legend.get_texts()) == 24


def test_lines_differ_in_colour_and_marker() -> None:
    drawn = lines(scaling(many()))
    assert len({(line.colour, line.marker) for line in drawn}) == len(drawn) == 14


def test_points_on_as_many_devices_that_differ_are_lines_of_their_own() -> None:
    both = [point(n, 10 * n, dtype=dtype) for dtype in ("float32", "bfloat16") for n in (1, 2)]
    labels = [line.label for line in lines(scaling(both))]
    assert labels == ["alexnet, local, dtype float32", "alexnet, local, dtype bfloat16"]


def test_lines_of_equal_labels_keep_their_own_points() -> None:
    both = [point(n, 10 * n + more, lr=0.1 + more) for more in (0, 5) for n in (1, 2)]
    shown = figure_model(scaling(both))
    first, second = shown.lines
    assert first.label != second.label
    alike = dataclasses.replace(shown, lines=(first, dataclasses.replace(second, what=first.what)))
    ends = draw_panel(Figure().subplots(), alike, RATE)
    assert [end.text for end in ends] == [first.label] * 2
    assert [end.y for end in ends] == [20, 25]
    assert ends[0].x < 2 < ends[1].x  # each has its own offset


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 0.1)), min_size=1, max_size=9))
def test_labels_are_pushed_apart_and_keep_their_order(labels: list[tuple[float, float]]) -> None:
    middles, heights = ([one[n] for one in labels] for n in (0, 1))
    placed = spread(middles, heights)
    order = sorted(range(len(labels)), key=lambda one: middles[one])
    for a, b in itertools.pairwise(order):
        assert placed[b] - placed[a] >= (heights[a] + heights[b]) / 2 - 1e-9
    for one, height in zip(placed, heights, strict=True):
        assert height / 2 - 1e-9 <= one <= 1 - height / 2 + 1e-9


def test_labels_with_room_stay_where_they_are() -> None:
    assert spread([0.8, 0.2], [0.1, 0.1]) == pytest.approx([0.8, 0.2])


def test_another_run_is_drawn_behind_in_grey_under_its_name() -> None:
    other = run([point(n, 12 * n) for n in (1, 2, 8)], "before")
    figure: Any = draw(scaling(three()), "t", "f", other)
    rate = figure.axes[0]
    assert [int(tick) for tick in rate.get_xticks()] == [1, 2, 4, 8]
    behind = next(
        one for one in rate.lines if len(one.get_xdata()) == 3 and one.get_marker() == "."
    )
    assert list(behind.get_ydata()) == pytest.approx([12, 24, 96])
    assert behind.get_color() == "#777777"
    (legend,) = figure.legends
    assert "compared with: before" in [text.get_text() for text in legend.get_texts()]


def test_another_run_shows_the_networks_that_both_have() -> None:
    other = run(published(), "published")
    shown = figure_model(scaling(three()), other)
    assert [line.end for line in shown.behind] == ["alexnet"]


def test_one_point_is_drawn_and_says_what_it_lacks() -> None:
    rate, speedup, efficiency, _ = panels(three()[:1])
    assert len(rate.containers) == 1
    assert any("on 1 device" in text for text in texts(speedup))
    assert any("on 1 device" in text for text in texts(efficiency))


def test_close_device_counts_keep_their_ticks_and_drop_labels_without_room() -> None:
    counts = list(range(1, 33))
    named = readable_counts(counts)
    assert {1, 32} <= set(named) < set(counts)
    assert readable_counts([1, 2, 4, 8, 16, 32, 64, 128, 256]) == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    axes = panels([point(n, 10 * n) for n in counts])[0]
    assert [int(tick) for tick in axes.get_xticks()] == counts


def test_a_store_of_many_windows_makes_no_large_svg(tmp_path: Path) -> None:
    long = [record([[1, *[1.0, 1.1] * 2000]] * n, devices=n, kvstore="dist_sync") for n in (1, 2)]
    svg, _ = save(draw(scaling(long), "t", "f"), tmp_path)
    assert svg.stat().st_size < 400_000


def test_long_names_are_folded_and_drawn() -> None:
    names = ("A=" + "b" * 60 + "$x_$", "C=$\\foo$")
    rows = scaling([point(n, 9 * n, env=(name,)) for name in names for n in (1, 2)])
    figure = draw(rows, "a long title " * 20, "a long footer " * 40)
    figure.savefig(io.BytesIO(), format="svg")
    (legend,) = figure.legends
    folded = legend.get_title().get_text().splitlines()
    assert len(folded) == 3
    assert max(map(len, folded)) <= 100
    assert figure.get_supxlabel().count("\n") == 2


def test_a_title_in_a_script_without_glyphs_prints_no_warning(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        save(draw(run(three()).rows, "漢字", "note"), tmp_path)
    assert (tmp_path / "scaling.png").stat().st_size > 0


def test_hundreds_of_lines_become_few_paths_with_all_their_points() -> None:
    records = [
        point(devices, 10 * devices + n, network="resnet", num_layers=layers, lr=0.01 * n)
        for layers in (18, 34, 50)
        for n in range(1, 31)
        for devices in (1, 2)
    ]
    rows = run(records).rows
    assert len(lines(rows)) == 90
    paths = [one for one in panels(records)[0].lines if one.get_linestyle() != "None"]
    assert len(paths) < 2 * 90  # one per line, and its ideal
    shown = {float(y) for one in paths for y in np.asarray(one.get_ydata(), float)}
    assert {row.rate.images_per_second for row in rows if row.rate} <= shown


def test_hundreds_of_points_have_their_intervals_and_medians_in_few_artists() -> None:
    records = [
        point(n, 10 * n, kvstore=store) for store in ("local", "device") for n in range(1, 161)
    ]
    rows = run(records).rows
    axes = panels(records)
    for one in axes:
        assert len(one.collections) == 0  # of them, each interval would be a path
        assert len(one.lines) < 12
    ends = {end for row in rows if row.rate for end in (row.rate.low, row.rate.high)}
    (caps,) = [one for one in axes[0].lines if one.get_marker() == "_"]
    assert {float(y) for y in caps.get_ydata()} == ends
    assert caps.get_zorder() < min(
        one.get_zorder() for one in axes[0].lines if one.get_marker() in {"o", "s"}
    )
    medians = {median(row.window_seconds) for row in rows}
    (bars,) = [one for one in axes[3].lines if one.get_linewidth() == 2]
    assert {float(y) for y in bars.get_ydata() if not np.isnan(y)} == medians
