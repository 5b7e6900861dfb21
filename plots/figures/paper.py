"""One panel of the figure for a paper: exact width, embedded fonts, a caption."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.errors import SpecError, error_line, quoted, unknown
from plots.figures import labels, panels
from plots.figures.axes import (
    decimal_axis,
    device_axis,
    linear_device_axis,
    log_axis,
    zero_based_axis,
)
from plots.figures.budget import budgeted, draw_budget
from plots.figures.caption import method, varied_line
from plots.figures.fan import draw_fans, fan_values, label_fans
from plots.figures.labels import LineEnd, matplotlib_text
from plots.figures.model import TRAINING, FigureModel, drawable, figure_model
from plots.figures.panels import DOTTED, EFFICIENCY, GREY, RATE, SPEEDUP, Panel
from plots.figures.scaling import MOST_NAMED, figure_style
from plots.format import latex_text, list_names
from results.errors import StoreError
from results.prediction.calibration import load_predictions
from results.quality import Quality
from results.rates import Ratio
from results.run import Run
from results.scaling import ScalingRow
from results.store import atomic_file, write_text

FORMATS = ("pdf", "svg", "png")
_OPTION = "--output"  # chooses the file
_DPI = 300
_MM = 25.4
_UNITS = {"mm": 1.0, "cm": 10.0, "in": _MM, "": 1.0}
_WIDTH = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,3})?) ?(mm|cm|in|)")
_NARROWEST, _WIDEST = 50, 400
_TALLEST = 240 / _MM
# Height of a panel by its width, and of what is above and below the axes, in inches.
_SHAPE, _AROUND = 0.68, 0.6
# Width in mm of a character of a line's label: narrow figures fold labels earlier.
_LABEL_MM = 6.7
# Marks are drawn for a figure of 11 inches.
_MARK = 0.7
_MOST_NAMED = 6
_PAPER: Any = {
    "font.size": 7.5,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "hatch.linewidth": 0.3,
    "pdf.fonttype": 42,  # TrueType: journals reject Type 3
    "svg.fonttype": "path",  # outlines: the figure looks the same without the font
}
# No date and no program in a file, so that the same figure has the same bytes.
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}


def _step(row: ScalingRow) -> Ratio | None:
    """Return the mean seconds of a step: global batch / throughput."""
    if row.rate is None:
        return None
    rate, batch = row.rate.ratio, row.trial.global_batch
    low, high = (end and batch / end for end in (rate.high, rate.low))
    return Ratio(value=batch / rate.value, low=low, high=high)


_STEP = Panel(title="Step time", unit="s", value=_step, lacking="")
_PREDICTION, _BUDGET = "prediction", "budget"
PANELS = {
    "throughput": RATE,
    "speedup": SPEEDUP,
    "efficiency": EFFICIENCY,
    "step": _STEP,
    _PREDICTION: RATE,
}
_AXES = {
    "throughput": "throughput (images/s)",
    "speedup": "speed-up vs {baseline}",
    "efficiency": "efficiency (% of ideal)",
    "step": "step time (s)",
    _PREDICTION: "throughput (images/s)",
}
_SUBJECTS = {
    "throughput": "Training throughput (images/s)",
    "speedup": "Speed-up",
    "efficiency": "Efficiency (% of ideal)",
    "step": "Mean step time (s), the global batch size divided by the throughput,",
    _PREDICTION: "Measured and predicted training throughput (images/s)",
}


_BUDGET_SUBJECT = (
    "Parts of a step's time: computing as on one device alone, and what the rest is lost to. "
    "Right: mean time of a step."
)
_PREDICTED = "Dashed: PREDICTION, not measured; bands: its 80 % and 95 % intervals"


def check_panel(name: str) -> None:
    """Raise SpecError if there is no panel of this name."""
    if name not in {*PANELS, _BUDGET}:
        raise unknown("panel", name, [*PANELS, _BUDGET])


def parse_width(text: str) -> float:
    """Return a width such as '88mm' in inches; SpecError if it is absurd."""
    found = _WIDTH.fullmatch(text.strip())
    size = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not _NARROWEST <= size <= _WIDEST:
        wanted = f"a width of {_NARROWEST} to {_WIDEST} mm, such as 88mm or 3.5in"
        fix = "Use the width of a column of the paper"
        raise SpecError(error_line("--width", expected=wanted, got=quoted(text), fix=fix))
    return size / _MM


def parse_format(name: str, output: str) -> str:
    """Return the format of the option, else of the file, else pdf."""
    suffix = Path(output).suffix.removeprefix(".").lower()
    if name and name not in FORMATS:
        raise unknown("format", name, FORMATS)
    if output and suffix not in FORMATS:
        wanted = f"a file that ends in {', '.join(f'.{one}' for one in FORMATS)}"
        fix = "Rename the file; the suffix selects the format"
        raise SpecError(error_line("--output", expected=wanted, got=quoted(output), fix=fix))
    if name and output and name != suffix:
        fix = "Omit --format; the suffix selects the format"
        raise SpecError(
            error_line("--output", expected=f"a .{name} file", got=quoted(output), fix=fix)
        )
    return name or suffix or "pdf"


def of_networks(run: Run, names: Sequence[str]) -> Run:
    """Return the run with the points of these networks only; all for none."""
    known = list(dict.fromkeys(row.trial.label for row in run.rows if row.trial.mode in TRAINING))
    for name in names:
        if name not in known:
            raise unknown("network", name, known)
    return replace(run, rows=[row for row in run.rows if not names or row.trial.label in names])


def draw(run: Run, name: str, width: float, linear: bool = False) -> Figure:
    """Draw a panel `width` inches wide; StoreError if the run has no points for it.

    linear  linear axes instead of logarithmic ones
    """
    if name == _BUDGET:
        with figure_style(_PAPER):
            return draw_budget(run, width, _standing(run))
    shown = replace(_model(run, name), inputs=(), linear=linear)
    _check(run, shown, name)
    folded = max(10, min(labels.WIDTH, int(width * _MM / _LABEL_MM)))
    text = [LineEnd(text=line.end, colour="", x=0, y=0) for line in shown.lines]
    least = labels.label_inches(text, folded) + _AROUND
    with figure_style(_PAPER):
        size = width, min(max(_SHAPE * width, least), _TALLEST)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots()
        ends = panels.draw(axes, shown, PANELS[name])
        # A narrow panel has room for one title: how its points came about.
        axes.set_title(_standing(run), loc="left", fontsize=7.5, fontweight="bold")
        axes.set_ylabel(matplotlib_text(_AXES[name].format(baseline=shown.baseline or "1 device")))
        draw_fans(axes, shown, PANELS[name])
        _scale(axes, shown, name)
        label_fans(axes, shown, PANELS[name])
        panels.draw_overflow_arrows(axes, shown, PANELS[name])
        # Below the lines, which rise, and away from the label of the ideal line.
        panels.draw_marks(axes, shown, 0.99 if linear else 0.04)
        space = 0.62 * width  # the labels take the rest
        if linear:
            linear_device_axis(axes, shown.counts, space)
        else:
            device_axis(axes, shown.counts, space)
        for line in axes.lines:
            line.set_markersize(_MARK * line.get_markersize())
            line.set_linewidth(_MARK * line.get_linewidth())
        labels.draw_labels(figure, {axes: ends}, folded)
        return figure


def _model(run: Run, name: str) -> FigureModel:
    """Return the contents of a panel; only that of predictions has some."""
    if name != _PREDICTION:
        return figure_model(run.rows)
    found = figure_model(run.rows, predictions=load_predictions(run.folder, run.rows))
    if not found.fans:
        fix = f"Run 'fab report.predict --run {run.folder} --devices N'"
        where = f"--panel {name} of {run.name}"
        raise StoreError(error_line(where, expected="predictions", got="none", fix=fix))
    return replace(found, ideals=())


def _scale(axes: Axes, shown: FigureModel, name: str) -> None:
    """Set the value axis, and draw the ideal lines."""
    found = [*panels.panel_values(shown, PANELS[name]), *fan_values(shown, PANELS[name])]
    if name == "efficiency":
        axes.axhline(100, color=GREY, linewidth=1, linestyle=DOTTED)
        zero_based_axis(axes, found, least=110)
    elif name == "speedup":
        found += panels.draw_ideal(axes, shown)
    elif name == "throughput":
        found += panels.ceiling_values(shown)
        panels.draw_ceilings(axes, shown)
    if shown.linear and name != "efficiency":
        axes.set_ylim(0, 1.12 * max(found))
    elif name == "speedup":
        log_axis(axes, found)
    elif name != "efficiency":
        decimal_axis(axes, found)


def _check(run: Run, shown: FigureModel, name: str) -> None:
    """Raise StoreError if the panel would be empty or unreadable."""
    where = f"--panel {name} of {run.name}"
    if not shown.lines:
        fix = f"Run 'fab report.show --run {run.folder}'"
        raise StoreError(
            error_line(where, expected="a training point with a result", got="none", fix=fix)
        )
    if not panels.panel_values(shown, PANELS[name]):
        problem = f"no point has a result on {shown.baseline or '1 device'} to compare with"
        fix = "Choose another one with --speedup-baseline 'KVSTORE xN'"
        raise StoreError(error_line(where, problem=problem, fix=fix))
    if len(shown.lines) > MOST_NAMED:
        problem = f"{len(shown.lines)} lines; at most {MOST_NAMED} are readable"
        raise StoreError(error_line(where, problem=problem, fix="Choose some with --network"))


def _standing(run: Run) -> str:
    if run.rehearsal:
        return "SIMULATED, not measured"
    reported = any(row.trial.reported for row in run.rows)
    origin = "reported by a program" if reported else "imported"
    return f"{origin}, not measured by mxscale" if run.sources else ""


def caption(run: Run, name: str, linear: bool = False) -> str:
    """Return the panel's caption: subject, marks, and how its points were measured."""
    if name == _BUDGET:
        return " ".join([_BUDGET_SUBJECT, *method(run, budgeted(run))])
    shown = _model(run, name)
    rows = [row for line in shown.lines for row in line.rows]
    some = [row for row in rows if PANELS[name].value(row)]
    baseline = f" vs {shown.baseline or '1 device'}" if name in {"speedup", "efficiency"} else ""
    axes = "linear axes" if linear else "logarithmic axes"
    if name == "efficiency" and not linear:
        axes = "logarithmic device axis"
    subject = f"{_SUBJECTS[name]}{baseline} by number of devices ({axes})"
    varied = varied_line(run.rows)
    lines = [f"{varied[:1].upper()}{varied[1:]}."] if varied else []
    return " ".join([f"{subject}.", *lines, *_marks(run, shown, name), *method(run, some)])


def _marks(run: Run, shown: FigureModel, name: str) -> list[str]:
    """Return the meaning of the marks that are drawn, and the points that are not."""
    rows = [row for line in shown.lines for row in line.rows]
    drawn = set(map(id, drawable(run.rows)))
    value = PANELS[name].value
    left = [row for row in run.rows if row.rate and id(row) not in drawn]
    found = {
        "Dotted: n times the throughput of 1 device": name == "throughput" and shown.ideals,
        _PREDICTED: shown.fans,
        "Dotted: ideal": name == "efficiency" or (name == "speedup" and len(shown.counts) > 1),
        "Points on the same number of devices stand side by side": len(shown.lines) > 1,
        "Hollow: more devices than the host has (oversubscribed)": any(r.emulated for r in rows),
        "Pale: indicative": any(row.quality is Quality.INDICATIVE for row in rows),
        "Ringed: doubtful, or with caveats": any(row.is_ringed for row in rows),
        _named("Cross: no result for", [one.row for one in shown.crosses]): shown.crosses,
        _named("Not shown, no baseline:", [r for r in rows if not value(r)]): True,
        _named("Not shown:", [r for r in left if r.trial.mode in TRAINING]): True,
    }
    return [f"{text}." for text, there in found.items() if text and there]


def _named(text: str, rows: Sequence[ScalingRow]) -> str:
    names = list(dict.fromkeys(row.name for row in rows))
    return f"{text} {list_names(names, _MOST_NAMED)}" if rows else ""


def save(figure: Figure, text: str, path: Path) -> list[Path]:
    """Write the figure and its caption, NAME-caption.txt and .tex; return the paths.

    The same figure gives the same bytes. The .tex file holds a complete `figure` environment. It is
    not NAME.tex, which may be the paper.
    """
    form = path.suffix.removeprefix(".").lower()
    with figure_style(_PAPER), atomic_file(path, _OPTION) as file:
        figure.savefig(file, format=form, dpi=_DPI, metadata=_METADATA[form])
    plain, tex = (path.with_name(f"{path.stem}-caption{one}") for one in (".txt", ".tex"))
    write_text(plain, f"{text}\n", _OPTION)
    write_text(tex, _environment(path, figure.get_figwidth() * _MM, text), _OPTION)
    return [path, plain, tex]


def _environment(path: Path, width: float, text: str) -> str:
    """Return a LaTeX figure; LaTeX includes .pdf and .png, not .svg."""
    name = path.with_suffix(".pdf").name if path.suffix.lower() == ".svg" else path.name
    return "\n".join(
        [
            "% needs \\usepackage{graphicx}",
            "\\begin{figure}",
            "  \\centering",
            f"  \\includegraphics[width={width:.6g}mm]{{\\detokenize{{{name}}}}}",
            f"  \\caption{{{latex_text(text)}}}",
            f"  \\label{{fig:{re.sub('[^A-Za-z0-9-]', '-', path.stem)}}}",
            "\\end{figure}",
            "",
        ]
    )
