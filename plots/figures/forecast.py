"""The static figure of a run's predictions, for the page."""

from collections.abc import Sequence
from dataclasses import replace
from io import StringIO

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from plots.figures import panels
from plots.figures.axes import decimal_axis, device_axis, zero_based_axis
from plots.figures.fan import DASHES, WORD, draw_fans, fan_values, label_fans
from plots.figures.labels import matplotlib_text
from plots.figures.model import figure_model
from plots.figures.panels import DOTTED, EFFICIENCY, GREY, RATE
from plots.figures.scaling import figure_style
from results.prediction.calibration import Predictions
from results.scaling import ScalingRow

# Text that a browser draws keeps the figure small.
_STATIC = {"svg.fonttype": "none"}


def static_figure(rows: Sequence[ScalingRow], predictions: Predictions) -> str:
    """Return the predictions with the points that they rest on, as an SVG.

    '' if no network of them is drawn.
    """
    shown = replace(figure_model(rows, predictions=predictions), inputs=(), crosses=())
    if not shown.fans:
        return ""
    with figure_style(_STATIC):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        rate, efficiency = figure.subplots(1, 2)
        for axes, panel in ((rate, RATE), (efficiency, EFFICIENCY)):
            panels.draw(axes, shown, panel)
            draw_fans(axes, shown, panel)
            axes.set_title(f"{panel.title} ({WORD} dashed)", loc="left", fontweight="bold")
            device_axis(axes, shown.counts)
        decimal_axis(rate, [*panels.panel_values(shown, RATE), *fan_values(shown, RATE)])
        efficiency.axhline(100, color=GREY, linewidth=1, linestyle=DOTTED)
        values = [*panels.panel_values(shown, EFFICIENCY), *fan_values(shown, EFFICIENCY)]
        zero_based_axis(efficiency, values, least=110)
        for axes, panel in ((rate, RATE), (efficiency, EFFICIENCY)):
            label_fans(axes, shown, panel)
        samples = [
            Line2D([], [], color=fan.colour, linestyle=DASHES, label=matplotlib_text(fan.label))
            for fan in shown.fans
        ]
        figure.legend(handles=samples, loc="outside lower center", ncols=3, frameon=False)
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()
