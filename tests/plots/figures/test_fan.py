"""Predictions in figures: dashed, labeled, apart from the points."""

from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from plots.figures import scaling as figure
from plots.figures.axes import log_axis
from plots.figures.fan import WORD, draw_fans, fan_values, label_fans
from plots.figures.forecast import static_figure
from plots.figures.model import FigureModel, figure_model
from plots.figures.panels import EFFICIENCY, RATE, SPEEDUP, panel_values
from plots.page.page import inline_svg
from results.comparison.references import reference
from results.prediction.calibration import NO_PREDICTIONS, Predictions, scored, stored
from results.prediction.forecast import counts_up_to, predict
from results.prediction.limits import Limits
from results.prediction.series import series_of

ROWS = [row for row in reference("tutorial").rows if row.trial.layout.devices <= 16]


def predictions(devices: int = 128) -> Predictions:
    (one,) = series_of(ROWS, "alexnet")
    found = [predict(one, n, Limits()) for n in counts_up_to(one, devices)]
    return scored(stored(one, found, Limits()), ROWS)


def drawn(shown: FigureModel) -> Axes:
    axes: Axes = Figure().subplots()
    draw_fans(axes, shown, RATE)
    log_axis(axes, [*panel_values(shown, RATE), *fan_values(shown, RATE)])
    label_fans(axes, shown, RATE)
    return axes


def test_a_fan_is_dashed_and_labeled_and_begins_beyond_the_points() -> None:
    axes = drawn(figure_model(ROWS, predictions=predictions()))
    (line,) = axes.lines
    assert line.get_linestyle() == "--"
    assert np.asarray(line.get_xdata()).tolist() == [32, 64, 128]
    assert [text.get_text() for text in axes.texts] == [WORD]
    assert len(axes.collections) == 2  # the intervals


def test_predictions_that_end_close_together_share_a_label() -> None:
    shown = figure_model(ROWS, predictions=predictions())
    (fan,) = shown.fans
    far = replace(
        fan,
        predictions=tuple(replace(one, images_per_second=300.0) for one in fan.predictions),
    )
    for others, labels in (((fan,), 1), ((fan, fan), 1), ((fan, far), 2)):
        axes = drawn(replace(shown, fans=others))
        assert [text.get_text() for text in axes.texts] == [WORD] * labels


def test_a_single_prediction_has_bars() -> None:
    axes = drawn(figure_model(ROWS, predictions=predictions(32)))
    assert len(axes.collections) == 2


def test_efficiencies_of_a_fan_are_relative_to_the_figures_baseline() -> None:
    shown = figure_model(ROWS, predictions=predictions(32))
    low, high = fan_values(shown, EFFICIENCY)
    rates = fan_values(shown, RATE)
    assert (low, high) == tuple(100 * rate / 457.07 / 32 for rate in rates)
    assert fan_values(shown, SPEEDUP)[0] == rates[0] / 457.07


def test_the_device_axis_reaches_to_the_predictions() -> None:
    assert figure_model(ROWS, predictions=predictions()).counts[-1] == 128
    assert figure_model(ROWS).counts[-1] == 16


def test_the_figure_says_that_it_has_predictions() -> None:
    def labels(found: Predictions) -> list[str]:
        made = figure.draw(ROWS, "title", "footer", predictions=found)
        return [text.get_text() for text in made.legends[0].get_texts()]

    assert any(WORD in text for text in labels(predictions()))
    assert not any(WORD in text for text in labels(NO_PREDICTIONS))


def test_the_static_figure_is_an_svg_that_changes_nothing_around_it() -> None:
    text = inline_svg(static_figure(ROWS, predictions()))
    assert text.startswith("<svg")
    assert text.rstrip().endswith("</svg>")
    assert "<style" not in text
    assert text.count(WORD) >= 2
    assert text == inline_svg(static_figure(ROWS, predictions()))
    assert static_figure(ROWS, NO_PREDICTIONS) == ""
