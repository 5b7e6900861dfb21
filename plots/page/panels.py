"""Data of the four panels as JSON; points refer to rows of results.csv."""

import math
from typing import Any

from plots.figures.caption import caption
from plots.figures.model import MARKERS, Line, figure_model, network_label, one_device, run_title
from plots.page.details import thin_values
from plots.results_csv import table_csv
from plots.summary import caveat_names
from results.cost.cost import NO_COSTS, Costs
from results.run import Run
from results.scaling import ScalingRow

# Plotly's names of the Matplotlib markers and dashes that plots/figures/model.py uses.
_SYMBOLS = (
    *("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "pentagon"),
    *("triangle-left", "triangle-right", "hexagon", "star", "octagon"),
)
_MARKERS = dict(zip(MARKERS, _SYMBOLS, strict=True))
_DASHES = {"-": "solid", "--": "dash", ":": "dot", "-.": "dashdot"}
# More dots make a panel slow and cannot be distinguished.
_MOST_DOTS = 4000
_FEWEST_DOTS = 5


def panel_data(run: Run, costs: Costs = NO_COSTS) -> dict[str, Any]:
    """Return the data of the panels and the table.

    csv          results.csv, from which the page takes the values of each point
    lines        connected points, with color, marker and dashes
    failed       training points without a result, with network and color
    inputs       input-pipeline throughput by device count, images/s
    ringed       whether some points have caveats
    thinned      whether a panel shows only a sample of some point's windows
    baseline     speed-up baseline, None for one device
    simulated    whether the simulated engine ran a point
    hosts        number of hosts of each point, whose prices make its cost
    caption      hardware, settings and omissions, as below the static figure
    second_host  place on the device axis above which jobs use several hosts, or None
    """
    rows = run.rows
    places = {id(row): place for place, row in enumerate(rows)}
    shown = figure_model(rows)
    drawn, base = shown.lines, shown.baseline
    keep = max(_FEWEST_DOTS, _MOST_DOTS // max(1, len(rows)))
    return {
        "name": run_title(run),
        "simulated": run.rehearsal,
        "hosts": [len(row.repeats[-1].identity.hosts) for row in rows],
        "caption": caption(run),
        "csv": table_csv(rows, costs, run.commit),
        "names": [row.name for row in rows],
        "baseline": base and {"name": str(base), "devices": base.devices},
        "lines": [_line(line, places, keep) for line in drawn],
        "failed": [
            {
                "row": places[id(one.row)],
                "network": network_label(one.row),
                "color": one.colour,
            }
            for one in shown.crosses
        ],
        "inputs": [
            {
                "label": one.label,
                "devices": list(one.points),
                "rates": list(one.points.values()),
            }
            for one in shown.inputs
        ],
        "second_host": shown.second_host,
        "ringed": any(row.is_ringed for line in drawn for row in line.rows),
        "thinned": any(len(row.window_seconds) > keep for line in drawn for row in line.rows),
    }


def _line(line: Line, places: dict[int, int], keep: int) -> dict[str, Any]:
    return {
        "label": line.label,
        "end": line.end,
        "network": line.network,
        "color": line.colour,
        "marker": _MARKERS[line.marker],
        "dash": _DASHES[line.dashes],
        "one": next(filter(None, map(one_device, line.rows)), None),
        "points": [_point(row, places[id(row)], keep) for row in line.rows],
    }


def _point(row: ScalingRow, place: int, keep: int) -> dict[str, Any]:
    speedup = row.shown_scaling and row.shown_scaling.speedup
    ends = speedup and (speedup.low, speedup.high)
    known = ends and None not in ends and math.isfinite(ends[1] or 0)
    return {
        "row": place,
        "speedup": ends if known else None,
        "windows": [float(f"{one:.5g}") for one in thin_values(row.window_seconds, keep)],
        "of": len(row.window_seconds),
        "marks": caveat_names(row) or ([f"quality: {row.quality}"] if row.is_ringed else []),
    }
