"""Predictions as text: tables, sentences, predictions.csv and their calibration."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path

from rich.table import Table

from im2rec_tools.console import screen_for
from im2rec_tools.terminal import echo
from plots.format import in_line, significant
from plots.results_csv import csv_text
from plots.tables.layout import markdown_table, terminal_table
from results.prediction.calibration import (
    Predictions,
    PredictionScore,
    StoredPrediction,
    stored,
)
from results.prediction.forecast import (
    Ceiling,
    NextPoint,
    Prediction,
    counts_up_to,
    is_limit,
    next_point,
    predict,
    separate_servers,
)
from results.prediction.limits import Limits
from results.prediction.population import LEVELS, Kind, population
from results.prediction.series import Series, rate_of
from results.run_folder import PREDICTION_TABLE, REPORT
from results.store import write_text

BANNER = "PREDICTION, not measured"
_HEADER = (
    *("devices", "hosts", "images/s", "80 % interval", "95 % interval"),
    *("efficiency", "at constant efficiency"),
)
_SCORES = ("measured", "error", "inside_80", "inside_95")
_NAMES = {
    Ceiling.LINK: "the network link",
    Ceiling.SERVER: "the servers",
    Ceiling.INPUT: "the input pipeline",
}
_BANDWIDTH = "fab bench.bandwidth --hostfile HOSTS"


def title(series: Series) -> str:
    """Return the heading of a prediction: the job, and the points that it rests on."""
    trial = series.trial
    hosts = "1 host" if trial.worker_hosts == 1 else f"{trial.worker_hosts} hosts"
    counts = f"{series.first.trial.layout.devices} to {series.devices} devices ({hosts})"
    job = f"{series.network} {trial.layout.kvstore}, batch {series.batch} per device"
    simulated = ", SIMULATED" if trial.scripted else ""
    return f"{BANNER}: {job}, from {counts}{simulated}"


def show(series: Series, devices: int, limits: Limits) -> list[StoredPrediction]:
    """Print the predictions up to a number of devices; return them as stored."""
    found = [predict(series, count, limits) for count in counts_up_to(series, devices)]
    table = terminal(series, found)
    screen_for(table).print(table)
    following = next_point(series, found[-1].devices, limits)
    echo(*sentences(series, found, limits, following))
    return stored(series, found, limits)


def terminal(series: Series, found: Sequence[Prediction]) -> Table:
    """Return the table of predictions for a terminal."""
    table = terminal_table(_HEADER, title=title(series))
    for one in found:
        table.add_row(*_cells(one))
    return table


def _cells(one: Prediction | StoredPrediction) -> list[str]:
    capped = "*" if one.ceiling else ""
    return [
        str(one.devices),
        str(one.hosts),
        f"{_rate(one.images_per_second)}{capped}",
        f"{_rate(one.low_80)} - {_rate(one.high_80)}",
        f"{_rate(one.low_95)} - {_rate(one.high_95)}",
        f"{_percent(one.efficiency)} [{100 * one.efficiency_low:.1f}, "
        f"{100 * one.efficiency_high:.1f}]",
        _rate(one.constant),
    ]


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else significant(value)


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def sentences(
    series: Series, found: Sequence[Prediction], limits: Limits, following: NextPoint | None
) -> Iterator[str]:
    """Yield the basis of predictions, their limits, and the next point."""
    yield _basis(series, found[-1].kind, limits)
    if found[-1].kind is Kind.HEAVY:
        yield (
            "Measure two hosts: until then, the first step to the network may cost nothing or "
            "more than half of the throughput."
        )
    yield from _ceilings(series, found, limits)
    kvstore = series.trial.layout.kvstore
    if found[-1].hosts > 1 and not series.trial.comm.spans:
        yield (
            f"Caveat: {kvstore} works on one host only; the prediction is of a kvstore with "
            "servers on each host (dist_sync), which was not measured."
        )
    if series.trial.asynchronous:
        yield "Caveat: the published tables are of synchronous jobs; this one is asynchronous."
    if series.alone and series.batch < series.trial.training.batch_per_device:
        yield "Caveat: predictions for smaller batches are less reliable."
    last = found[-1]
    if following is None:
        yield f"Most useful next point: the prediction itself, {last.devices} devices."
        return
    minutes = following.minutes
    length = "" if minutes is None else f", about {significant(minutes, 2)} minutes"
    hosts = f"{following.hosts} host{'s' if following.hosts > 1 else ''}"
    yield (
        f"Most useful next point: {hosts} ({following.devices} devices{length}). It narrows the "
        f"95 % interval at {last.devices} devices from {_width(following.now)} to "
        f"{_width(following.then)}."
    )


def _width(value: float) -> str:
    return f"{100 * value:.0f} %"


def _basis(series: Series, kind: Kind, limits: Limits) -> str:
    """Return the kind of the job, and how well published tables of it were predicted."""
    known = population()
    load = series.load(math.inf if limits.link is None else limits.link)
    link = min(known.bandwidth, limits.link or math.inf)
    if math.isfinite(load):
        takes = (
            f"pushing and pulling all gradients takes {load:.2f} of the computing time at "
            f"{link / 1e9:.3g} GB/s"
        )
    else:
        takes = "the size of the gradients is unknown"
    one = known.kinds[kind]
    names = {
        Kind.LIGHT: "Light exchange",
        Kind.HEAVY: "Heavy exchange",
        Kind.MULTI: "Several hosts measured",
    }
    return (
        f"{names[kind]}: {takes}. Of {one.cells} points of {one.tables} published tables like it, "
        f"{100 * one.close:.0f} % were predicted within 5 %."
    )


def _ceilings(series: Series, found: Sequence[Prediction], limits: Limits) -> Iterator[str]:
    """Yield the ceilings that cap a prediction, and those that are not known."""
    for ceiling in Ceiling:
        capped = [str(one.devices) for one in found if one.ceiling is ceiling]
        if capped:
            yield f"* Capped by {_NAMES[ceiling]} on {', '.join(capped)} devices."
    missing = []
    if limits.link is None:
        missing.append(f"network link (give --bandwidth 25Gb, or run '{_BANDWIDTH}')")
    if series.gradient_bytes is None:
        missing.append("bytes per step (the run does not record them)")
    if limits.server is None and not (separate_servers(series, limits) and limits.link):
        missing.append(f"servers (run '{_BANDWIDTH}')")
    if series.trial.mode == "real" and limits.input is None:
        missing.append("input pipeline (run 'fab bench.io')")
    if missing:
        yield f"Ceilings not measured: {'; '.join(missing)}."


def count_sentence(series: Series, efficiency: float, devices: int | None) -> str:
    """Return the largest device count whose lower 80 % bound reaches an efficiency."""
    wanted = f"{100 * efficiency:g} %"
    name = f"{BANNER}: {series.network}"
    if devices is not None:
        count = f"up to {devices} devices"
        if is_limit(series, devices):
            count += ", the most that mxscale supports,"
        return f"{name}: {count} keep an efficiency of {wanted} (lower end of the 80 % interval)."
    base = rate_of(series.first).images_per_second / series.first.trial.layout.devices
    good = [
        row.trial.layout.devices
        for row in series.rows
        if rate_of(row).images_per_second / row.trial.layout.devices >= efficiency * base
    ]
    return (
        f"{name}: no count above the measured {series.devices} keeps an efficiency of {wanted} "
        f"(lower end of the 80 % interval). The largest measured count that does: {max(good)}."
    )


def table_csv(predictions: Predictions) -> str:
    """Return predictions.csv: one row per stored prediction, with its score."""
    names = [field.name for field in fields(StoredPrediction)]
    rows = [
        [
            *(getattr(one.prediction, name) for name in names),
            *(one.measured, one.error, *(one.holds(level) for level in LEVELS)),
        ]
        for one in predictions.scored
    ]
    return csv_text([[*names, *_SCORES], *rows])


def save(folder: Path, predictions: Predictions) -> Path:
    """Write predictions.csv below the report of a run; return its path."""
    path = folder / REPORT / PREDICTION_TABLE
    write_text(path, table_csv(predictions))
    return path


def calibration(predictions: Predictions) -> list[str]:
    """Return one sentence per prediction whose point was measured, and their summary."""
    found = [one for one in predictions.distinct if one.measured is not None]
    lines = [f"{_point(one.prediction)}: {_score(one)}." for one in found]
    if len(found) > 1:
        held = (f"{sum(one.holds(level) is True for one in found)}" for level in LEVELS)
        lines.append(
            f"Of {len(found)} measured predictions, {next(held)} are inside the 80 % interval and "
            f"{next(held)} inside the 95 % interval."
        )
    return lines


def _point(one: StoredPrediction) -> str:
    return f"{one.network} {one.kvstore} x{one.devices} from x{one.known_devices}"


def _score(one: PredictionScore) -> str:
    """Return 'predicted 8,315, measured 7,946: inside 95 %, outside 80 %'."""
    predicted, measured = one.prediction.images_per_second, one.measured or math.nan
    return f"predicted {_rate(predicted)}, measured {_rate(measured)}: {_inside(one)}"


def _inside(one: PredictionScore) -> str:
    """Return 'inside 95 %, outside 80 %'."""
    words = {True: "inside", False: "outside"}
    return ", ".join(
        f"{words[bool(one.holds(level))]} {100 * level:.0f} %" for level in reversed(LEVELS)
    )


def rows(predictions: Predictions) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the table of the newest predictions, for a report."""
    header = ["network", "kvstore", "batch", *_HEADER, "from", "measured"]
    found = [
        [
            one.prediction.network,
            one.prediction.kvstore,
            str(one.prediction.batch_per_device),
            *_cells(one.prediction),
            f"{one.prediction.known_devices} devices",
            "" if one.measured is None else f"{_rate(one.measured)}, {_inside(one)}",
        ]
        for one in predictions.newest
    ]
    return header, found


def markdown(predictions: Predictions) -> str:
    """Return the section of report.md; '' without predictions."""
    if not predictions.scored:
        return ""
    header, found = rows(predictions)
    lines = [
        "## Predictions",
        f"**{BANNER}.** Intervals are prediction intervals.",
        markdown_table(header, found, ("network", "kvstore", "measured")),
        "\n".join(f"- {in_line(line)}" for line in calibration(predictions)),
    ]
    return "\n\n".join(filter(None, lines))
