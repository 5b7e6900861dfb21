"""The short table of a run for a paper: LaTeX, Markdown and CSV."""

import csv
import io
import math
import re
from collections.abc import Callable, Sequence
from itertools import compress

from bench.errors import error_line
from bench.settings.point_names import distinguishing_fields
from plots.figures.caption import method
from plots.figures.model import TRAINING, network_label
from plots.format import in_line, latex_text, significant, status_text
from plots.tables.layout import markdown_table
from results.errors import StoreError
from results.rates import Ratio
from results.run import Run
from results.scaling import ScalingRow

_HEADER = (
    "network",
    "kvstore",
    "settings",
    "devices",
    "throughput (images/s)",
    "efficiency (%)",
    "n",
    "quality",
)
_COLUMNS = (
    *("network", "kvstore", "settings", "devices", "images_per_second", "low", "high"),
    *("efficiency", "efficiency_low", "efficiency_high", "n", "status", "quality"),
)
_TEXTS = ("network", "kvstore", "settings", "quality")
# An interval whose sides differ by less than this is printed with ±.
_EVEN = 0.9
# A narrower CI, as of scripted times, is rounding.
_NONE = 1e-9


def latex(run: Run) -> str:
    """Return a LaTeX table environment that needs the package booktabs."""
    names, rows = _filled(run)
    sides = "".join("l" if name in _TEXTS else "r" for name in names)
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            "\\begin{table}",
            "  \\centering",
            f"  \\caption{{{latex_text(caption(run))}}}",
            "  \\smallskip",
            f"  \\label{{tab:{re.sub('[^A-Za-z0-9-]', '-', run.name)}}}",
            f"  \\begin{{tabular}}{{@{{}}{sides}@{{}}}}",
            "    \\toprule",
            f"    {_latex_row(names)}",
            "    \\midrule",
            *(f"    {_latex_row(cells)}" for cells in rows),
            "    \\bottomrule",
            "  \\end{tabular}",
            "\\end{table}",
            "",
        ]
    )


def _latex_row(cells: Sequence[str]) -> str:
    # A bracket at the start of a row would be an argument of the \\ before it.
    return " & ".join(f"{{{latex_text(cell)}}}" for cell in cells) + r" \\"


def markdown(run: Run) -> str:
    """Return a Markdown table and its caption."""
    names, rows = _filled(run)
    return f"{markdown_table(names, rows, _TEXTS)}\n\n{in_line(caption(run))}\n"


def table_csv(run: Run) -> str:
    """Return the table in CSV with full numbers; efficiencies are fractions."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_COLUMNS)
    rows = points(run)
    for row, more in zip(rows, _settings(rows), strict=True):
        rate = row.rate.ratio if row.rate else None
        efficiency = row.shown_scaling.efficiency if row.shown_scaling else None
        ends = [
            value
            for one in (rate, efficiency)
            for value in ((one.value, one.low, one.high) if one else ("", "", ""))
        ]
        count = row.rate.repeats if row.rate else ""
        writer.writerow([*_names(row, more), *ends, count, row.status, row.quality or ""])
    return file.getvalue()


FORMATS: dict[str, Callable[[Run], str]] = {
    "latex": latex,
    "markdown": markdown,
    "csv": table_csv,
}


def points(run: Run) -> list[ScalingRow]:
    """Return the training points; StoreError if there are none."""
    found = [row for row in run.rows if row.trial.mode in TRAINING]
    if not found:
        fix = f"Run 'fab report.show --run {run.folder}'"
        raise StoreError(error_line(run.name, expected="a training point", got="none", fix=fix))
    return found


def caption(run: Run) -> str:
    """Return the table's caption: the meaning of columns, and how it was measured."""
    rows = points(run)
    chosen = next((row.chosen_baseline for row in rows), None)
    subject = f"Training throughput, and efficiency vs {chosen or '1 device'}, ± 95 % CI."
    return " ".join([subject, *method(run, rows)])


def _filled(run: Run) -> tuple[list[str], list[list[str]]]:
    """Return header and cells, without columns that are empty for every point."""
    rows = points(run)
    found = [_cells(row, more) for row, more in zip(rows, _settings(rows), strict=True)]
    filled = [any(column) for column in zip(*found, strict=True)]
    return list(compress(_HEADER, filled)), [list(compress(one, filled)) for one in found]


def _settings(rows: Sequence[ScalingRow]) -> list[str]:
    """Return, per point, the settings that distinguish it from similar points."""
    return distinguishing_fields([row.trial for row in rows])


def _names(row: ScalingRow, more: str) -> tuple[str, str, str, str]:
    layout = row.trial.layout
    return network_label(row), layout.kvstore, more, str(layout.devices)


def _cells(row: ScalingRow, more: str) -> list[str]:
    """Return the cells under `_HEADER`; without a result, its status."""
    if row.rate is None:
        return [*_names(row, more), f"no result: {status_text(row.status)}", "", "", ""]
    scaling = row.shown_scaling
    efficiency = with_interval(scaling.efficiency.times(100)) if scaling else ""
    unsteady = " (no steady state)" if row.status == "unstable" else ""
    hollow = " (oversubscribed)" if row.emulated else ""
    rate = f"{with_interval(row.rate.ratio)}{unsteady}{hollow}"
    return [*_names(row, more), rate, efficiency, str(row.rate.repeats), str(row.quality or "")]


def with_interval(ratio: Ratio) -> str:
    """Return '17.89 ± 0.27', '86 [47, 156]' or '4.13 (no CI)'.

    The CI has two significant digits, and the value as many decimals.
    """
    if ratio.low is None or ratio.high is None:
        return f"{significant(ratio.value)} (no CI)"
    below, above = ratio.value - ratio.low, ratio.high - ratio.value
    side = max(below, above)
    if side <= _NONE * abs(ratio.value):
        return significant(ratio.value)
    decimals = max(0, 1 - math.floor(math.log10(side)))
    if ratio.is_uninformative:
        return f"{significant(ratio.value)} (uncertain)"
    value = f"{ratio.value:.{decimals}f}"
    if min(below, above) >= _EVEN * side:
        return f"{value} ± {side:.{decimals}f}"
    return f"{value} [{ratio.low:.{decimals}f}, {ratio.high:.{decimals}f}]"
