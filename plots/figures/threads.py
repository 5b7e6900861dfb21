"""The input-pipeline figure: throughput (images/s) by decoding threads."""

from textwrap import fill
from typing import Any

from matplotlib.figure import Figure

from plots.figures.labels import matplotlib_text
from plots.figures.scaling import figure_style
from results.scaling import ScalingRow


def draw(drawn: dict[str, list[ScalingRow]], title: str, footer: str) -> Figure:
    """Draw one line per group of `input_rows`, with 95 % CIs."""
    with figure_style():
        figure = Figure(figsize=(7, 4.6), layout="constrained")
        axes = figure.subplots()
        for name, some in drawn.items():
            found = [row.rate for row in some if row.rate]
            rates = [rate.images_per_second for rate in found]
            counts = [row.trial.data.nthreads for row in some]
            below = [y - (rate.low or y) for y, rate in zip(rates, found, strict=True)]
            above = [(rate.high or y) - y for y, rate in zip(rates, found, strict=True)]
            style: Any = {"marker": "o", "capsize": 3, "label": f"page cache {name}"}
            axes.errorbar(counts, rates, yerr=[below, above], **style)
        axes.set_xlabel("decoding threads")
        axes.set_ylabel("throughput (images/s)")
        axes.set_ylim(bottom=0)
        every = [row for some in drawn.values() for row in some]
        axes.set_xticks(sorted({row.trial.data.nthreads for row in every}))
        axes.set_title(matplotlib_text(fill(title, 70)), loc="left", fontweight="bold")
        axes.legend(frameon=False)
        figure.supxlabel(matplotlib_text(footer), fontsize=7.5, color="#444444")
    return figure
