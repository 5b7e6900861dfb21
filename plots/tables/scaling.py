"""The results table for the terminal and for Markdown, with its notes."""

from collections.abc import Collection, Iterator, Sequence
from itertools import compress

from rich.table import Table
from rich.text import Text

from bench.notes import texts
from bench.settings.point_names import short_value, varying
from bench.trial import FIELDS, Trial
from im2rec_tools.console import (
    is_limited,
    joined_columns,
    line,
    screen_for,
    text_width,
)
from plots.failed_repeats import failure_place
from plots.failures import Failures, attempt_items, attempt_lines, attempt_text
from plots.figures.caption import provenance, settings_line
from plots.figures.model import TRAINING
from plots.format import (
    REHEARSAL_NOTE,
    STATUS_WORDS,
    format_interval,
    format_percent,
    format_rate,
    format_speedup,
    is_uninformative,
    list_names,
    significant,
    status_text,
)
from plots.items import Item, markdown_list, plain_lines
from plots.point_labels import settings_of
from plots.summary import summary_items
from plots.tables.explanation import VERDICT_NOTE, is_filled, verdict_cell
from plots.tables.layout import Cells, fitting_grid, markdown_table, terminal_grid
from plots.tables.training import (
    memory_items,
    target_cells,
    target_columns,
    time_cells,
    time_notes,
)
from results.cost.cost import JOULE, NO_COSTS, Cost, Costs
from results.cost.energy import SOURCES
from results.rates import ASSUMED_DRIFT, ASSUMED_SCATTER, Ratio
from results.record import grouped, kept_by_items
from results.run import Run
from results.scaling import ScalingRow, knees
from results.speedup import Baseline, Scaling

_MOST_NAMED, _MOST_GROUPED = 3, 8
_COSTS_PAGE = "docs/how-to/cost-and-energy.md"
_SETTINGS_PAGE = "docs/reference/sweep-file.md"
_OVERSUBSCRIBED = (
    "* oversubscribed: the point used more devices than the machine has, so it is not a valid "
    "performance result."
)
Pair = tuple[ScalingRow, Cost]
HEADER = (
    "network",
    "kvstore",
    "devices",
    "batch",
    "images/s",
    "95 % CI",
    "n",
    "speed-up",
    "efficiency",
    "vs 1 host",
    "vs 1 worker",
    "accuracy",
    "time to accuracy",
    "epochs",
    "verdict",
    "quality",
    "status",
)
# Follows the status of a point that has caveats in the summary.
MARK = "!"
_MODES = {"real": "real data", "bandwidth": "bandwidth"}
_TEXT = (
    *("network", "kvstore", "verdict", "quality", "status"),
    *(name for name, field in FIELDS.items() if field.type not in {bool, int, float}),
)
# The columns before those of the fields that vary.
_NAMED = 2
# Parts of `show` besides the summary and the short table.
WIDE, NOTES = "wide", "notes"
_MOST_TROUBLES = 5
# Columns to leave out on a narrow terminal, in this order; those of costs between them. A
# throughput needs its interval and n more than the speed-up, which the efficiency repeats. The
# efficiency stays without a time to accuracy, which always stays.
_OPTIONAL = ("batch", "vs 1 worker", "vs 1 host", "speed-up", "verdict", "epochs", "accuracy")
_NEEDED = ("quality", "efficiency", "95 % CI", "n")


def cost_headers(costs: Costs) -> tuple[str, ...]:
    """Return cost columns in which some point has a value: 'images/J', 'images/USD'."""
    return tuple(f"images/{unit}" for unit in costs.units)


def cost_columns(costs: Costs) -> tuple[str, ...]:
    """Return the cost columns of results.csv; empty if no point has a value."""
    names = ["joule" if unit == JOULE else unit for unit in costs.units]
    return (*(f"images_per_{name}" for name in names), "cost_reason") if names else ()


def cost_values(row: ScalingRow, costs: Costs) -> tuple[float | str | None, ...]:
    """Return a point's values under `cost_columns`; the last is the reason for gaps."""
    if not costs.units:
        return ()
    found = [one.value if one else None for one in costs.found(row)]
    cost = costs.of(row)
    whys = [f"images/{unit}: {cost.why[unit]}" for unit in costs.units if unit in cost.why]
    return (*found, "; ".join(whys))


def cost_remarks(rows: Sequence[ScalingRow], costs: Costs) -> list[str]:
    """Return notes on cost columns: source, empty cells, missing columns.

    Empty if the report has no prices; simulated points have no energy notes.
    """
    found = [(row, costs.of(row)) for row in rows]
    lines = _joules(found)
    lines += [
        f"images/{unit}: from the hourly price of the point's hosts in {costs.prices}."
        for unit in costs.units
        if unit != JOULE
    ]
    for unit in costs.units:
        lines += [
            f"images/{unit} not available for {_named(names, len(found))}: {why}."
            for why, names in _points_by_reason(found, unit).items()
        ]
    nothing = " and ".join(_nothing(found, costs))
    return [*lines, *([f"Not available: {nothing}. See {_COSTS_PAGE}."] if nothing else [])]


def _joules(found: Sequence[Pair]) -> list[str]:
    kinds = grouped((cost.sources, row.name) for row, cost in found if JOULE in cost.images)
    lines = []
    for sources, names in kinds.items():
        whose = f" ({_named(names, len(found))})" if len(kinds) > 1 else ""
        what = " and ".join(SOURCES[source] for source in sources)
        lines.append(
            f"images/J{whose}: per joule of the hosts' {what}, idle ones included. Other hardware "
            f"of the hosts and the network is not counted."
        )
    return lines


def _points_by_reason(found: Sequence[Pair], unit: str) -> dict[str, list[str]]:
    """Return the names of the points without this cost, by reason."""
    return grouped((cost.why[unit], row.name) for row, cost in found if unit in cost.why)


def _named(names: Sequence[str], count: int) -> str:
    if len(names) == count:
        return "all points"
    return list_names(names, _MOST_NAMED)


def _nothing(found: Sequence[Pair], costs: Costs) -> Iterator[str]:
    """Yield the costs that no point has, each with the first reason."""
    measured = [pair for pair in found if not pair[0].trial.scripted]
    asked = dict.fromkeys(unit for _, cost in found for unit in cost.why)
    for unit in asked:
        whys = list(_points_by_reason(measured if unit == JOULE else found, unit))
        if whys and unit not in costs.units:
            more = f", and {len(whys) - 1} more" if len(whys) > 1 else ""
            yield f"images per {'joule' if unit == JOULE else unit} ({whys[0]}{more})"
    if not costs.prices and any(cost.images or cost.why for _, cost in measured):
        yield "images per unit of currency (no prices.toml)"


def rate_unit(trial: Trial) -> tuple[str, float]:
    """Return a trial's throughput unit and its size in images (or bytes) per second."""
    return ("MB/s", 1e6) if trial.mode == "bandwidth" else ("images/s", 1.0)


def _amount(ratio: Ratio | None) -> str:
    """Return 0.0764, 97.2 k, 2.14 M; empty if unknown."""
    if ratio is None:
        return ""
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if ratio.value >= size:
            return significant(ratio.value / size) + letter
    return significant(ratio.value)


def _accuracy(row: ScalingRow) -> str:
    return "" if row.accuracy is None else f"{row.accuracy:.3f}"


def _efficiency(against: Scaling | None) -> str:
    return "" if against is None else format_percent(against.efficiency)


@kept_by_items
def varying_columns(rows: Sequence[ScalingRow]) -> list[str]:
    """Return the fields that distinguish points of one network, kvstore and size.

    The batch has a column of its own.
    """
    return [name for name in varying([row.trial for row in rows]) if name != "batch_per_device"]


def header(costs: Costs, rows: Sequence[ScalingRow] = ()) -> tuple[str, ...]:
    """Return `HEADER` with columns for varying fields, a chosen baseline and costs."""
    names = (*HEADER[:_NAMED], *varying_columns(rows), *HEADER[_NAMED:-2])
    chosen = [f"{name} vs {one}" for one in _chosen(rows) for name in ("speed-up", "efficiency")]
    return (*names, *chosen, *cost_headers(costs), *HEADER[-2:])


def _chosen(rows: Sequence[ScalingRow]) -> set[Baseline]:
    """Return the baseline that the user chose, if any."""
    return {row.chosen_baseline for row in rows if row.chosen_baseline}


def table(rows: Sequence[ScalingRow], costs: Costs = NO_COSTS) -> list[tuple[str, ...]]:
    """Return the cells of all rows under `header`, as text."""
    names = varying_columns(rows)
    return [cells(row, names, costs) for row in rows]


@kept_by_items
def filled_table(
    rows: Sequence[ScalingRow], costs: Costs = NO_COSTS
) -> tuple[list[str], list[list[str]]]:
    """Return header and cells, without the columns that are empty for every point."""
    names, found = header(costs, rows), table(rows, costs)
    columns = list(zip(*found, strict=True)) or [("?",)] * len(names)
    filled = [is_filled(*one) for one in zip(names, columns, strict=True)]
    return list(compress(names, filled)), [list(compress(one, filled)) for one in found]


def cells(row: ScalingRow, fields: Sequence[str] = (), costs: Costs = NO_COSTS) -> tuple[str, ...]:
    """Return the row's cells; `fields` are those that have a column."""
    trial, rate = row.trial, row.rate if row.trial.mode != "bandwidth" else None
    over = row.baseline
    chosen = (format_speedup(over.speedup) if over else "", _efficiency(over))
    baseline = chosen if row.chosen_baseline else ()
    batch = f"{trial.device_batch}/{trial.worker_batch}/{trial.global_batch}"
    devices = f"{trial.layout.devices}*" if row.emulated else str(trial.layout.devices)
    return (
        ", ".join(filter(None, (trial.label, _MODES.get(trial.mode)))),
        trial.store_name,
        *(short_value(trial.value(name)) for name in fields),
        devices,
        batch,
        significant(rate.images_per_second) if rate else "",
        format_interval(rate) if rate else "",
        str(rate.repeats) if rate else "",
        format_speedup(row.device.speedup) if row.device else "",
        _efficiency(row.device),
        _efficiency(row.host),
        _efficiency(row.worker),
        _accuracy(row),
        *time_cells(row),
        verdict_cell(row),
        *baseline,
        *map(_amount, costs.found(row)),
        row.quality or "",
        f"{row.status} {MARK}" if row.has_caveats else row.status,
    )


def point_notes(rows: Sequence[ScalingRow]) -> list[Item]:
    """Return notes shared by several points, then each point's settings and notes.

    Points without a result are in `failure_items`.
    """
    parts: dict[str, list[str]] = {}
    for row, own in zip(rows, settings_of([row.trial for row in rows]).own, strict=True):
        settings = [f"settings: {', '.join(own)}"] if own else []
        parts[row.name] = [*settings, *(texts(row.notes) if row.rate else ())]
    noted = grouped((text, name) for name, some in parts.items() for text in dict.fromkeys(some))
    shared = {text: tuple(names) for text, names in noted.items() if len(names) > 1}
    groups = grouped((names, text) for text, names in shared.items())
    items = [Item(_points(names, len(rows)), tuple(some)) for names, some in groups.items()]
    for name, some in parts.items():
        if alone := tuple(text for text in some if text not in shared):
            items.append(Item(name, alone))
    return items


def _points(names: Sequence[str], count: int) -> str:
    """Return 'all points', or the points' names after their number."""
    if len(names) == count:
        return "all points"
    return f"{len(names)} points ({list_names(names, _MOST_GROUPED, ', ')})"


def failure_items(rows: Sequence[ScalingRow], missing: Sequence[str] = ()) -> list[Item]:
    """Return the points without a result, each with its status and cause."""
    items = [Item(f"{row.name}: {_failure_text(row)}") for row in rows if row.rate is None]
    return [*items, *(Item(f"{name}: not measured yet.") for name in missing)]


def _failure_text(row: ScalingRow) -> str:
    """Return status and cause, such as 'hung (stalled): no progress for 60 s.'."""
    bad = next((one for one in row.repeats if one.samples is None), None)  # that of the message
    place = failure_place(bad.failure) if bad else ""
    parts = filter(None, (row.message, place, *texts(row.notes)))
    cause = "; ".join(parts) or "no cause recorded"
    return f"{status_text(row.status)}: {cause}{'' if cause.endswith('.') else '.'}"


def _intervals(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """Yield notes on how the throughput CIs are computed."""
    repeats = {row.rate.repeats for row in rows if row.rate}
    if 1 in repeats:
        yield (
            f"n: number of repeats, each in fresh processes. With n = 1, the 95 % CI assumes a "
            f"standard deviation of {100 * ASSUMED_SCATTER:g} % between runs; use 3 or more "
            f"repeats to measure it."
        )
    elif repeats:
        yield (
            "n: number of repeats, each in fresh processes. The 95 % CI is computed from the "
            "variance between them."
        )
    if 2 in repeats:
        yield (
            "n = 2: the 95 % CI is very wide, because it has only 1 degree of freedom; use 3 or "
            "more repeats."
        )
    if any(row.rate and row.rate.error and row.rate.slowdown for row in rows):
        yield (
            f"95 % CI: measuring stopped before the window budget was spent. The lower end allows "
            f"for the remaining windows to be up to {100 * ASSUMED_DRIFT:g} % slower; "
            f"--precision 0 measures every window."
        )


def column_notes(rows: Sequence[ScalingRow], costs: Costs = NO_COSTS) -> list[str]:
    """Return one note per column: definition and source."""
    lines = [
        "batch: images per step on one device / one worker / the whole job.",
        *_intervals(rows),
        *_baseline_notes(rows),
    ]
    if any(row.trial.layout.device == "cpu" and row.trial.servers for row in rows):
        beside = all(not row.trial.layout.server_hosts for row in rows)
        where = "share them with the workers" if beside else "run on separate hosts"
        lines.append(f"devices: CPU cores. Parameter servers {where}.")
    lines += _status_notes(rows)
    if any(row.accuracy is not None for row in rows):
        lines.append("accuracy: of the last validation, mean of the repeats.")
    lines += time_notes(rows)
    if any(row.verdict and row.verdict.seconds for row in rows):
        lines.append(VERDICT_NOTE)
    if any(row.has_caveats for row in rows):
        lines.append(f"{MARK} the point has caveats: see the summary and the notes on points.")
    if any(row.emulated for row in rows):
        lines.append(_OVERSUBSCRIBED)
    if any(row.trial.scripted for row in rows):
        lines.append(f"{REHEARSAL_NOTE}.")
    if any(settings_of([row.trial for row in rows]).own) or settings_line(rows):
        lines.append(f"settings: fields that differ from their defaults; see {_SETTINGS_PAGE}.")
    return [*lines, *knees(rows), *cost_remarks(rows, costs)]


def _status_notes(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """Yield the meaning of the statuses whose stored names are no standard terms."""
    found = [one for one in STATUS_WORDS if any(row.status == one for row in rows)]
    if found:
        yield f"status: {'; '.join(f'{one} = {STATUS_WORDS[one]}' for one in found)}."


def _baseline_notes(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """Yield the baselines of speed-ups and efficiencies, or why there are none."""
    trained = [row for row in rows if row.rate and row.trial.mode in TRAINING]
    bases = sorted({row.device.base for row in rows if row.device})
    if bases:
        yield (
            f"speed-up, efficiency: relative to 1 device ({', '.join(bases)}). ± or [low, high] "
            f"is the 95 % CI, which includes the uncertainty of the baseline. It uses the repeats "
            f"of both points, so it can be narrower than the CIs of their throughputs."
        )
    elif trained:
        yield (
            "speed-up, efficiency: not available, because no point with a result on 1 device has "
            "the same settings as another point."
        )
    bases = sorted({row.host.base for row in rows if row.host})
    if bases:
        smaller = any(
            row.rate and not row.host and layout.devices < layout.devices_per_host
            for row in trained
            for layout in (row.trial.layout,)
        )
        empty = "; empty for points smaller than a host" * smaller
        yield f"vs 1 host: efficiency relative to 1 full host ({', '.join(bases)}){empty}."
    for one in _chosen(rows):
        yield f"speed-up vs {one}, efficiency vs {one}: relative to the chosen baseline."
    against = [one for row in rows for one in (row.device, row.host, row.worker) if one]
    found = [one.efficiency for one in against] + [row.rate.ratio for row in rows if row.rate]
    if any(map(is_uninformative, found)):
        yield "uncertain, unknown: too few windows or too much noise; do not use the value."
    if any(row.worker for row in rows):
        local = any(not row.trial.comm.spans for row in trained)
        empty = "; empty without a distributed kvstore" * local
        yield (
            f"vs 1 worker: efficiency relative to one worker that uses the same kvstore, parameter "
            f"servers included{empty}."
        )
    elif any(
        row.rate and row.trial.comm.spans and row.trial.workers > 1
        for row in rows
        if row.trial.mode != "bandwidth"
    ):
        yield (
            "vs 1 worker: not available, because no point has 1 worker with the same kvstore. A "
            "sweep over hosts always includes one."
        )


def notes(
    rows: Sequence[ScalingRow],
    costs: Costs = NO_COSTS,
    failures: Failures | None = None,
    parts: Collection[str] = (WIDE, NOTES),
) -> tuple[list[Item], list[Item]]:
    """Return the notes below the table: on points (NOTES), and on columns (WIDE).

    A part that fails becomes one line that names it; without `failures` it raises.
    """
    columns, points = list[str](), list[Item]()
    if WIDE in parts:
        columns = attempt_lines(failures, "notes on columns", lambda: column_notes(rows, costs))
    if NOTES in parts:
        points = attempt_items(failures, "notes on points", lambda: point_notes(rows))
    return points, [Item(one) for one in columns]


def terminal(
    rows: Sequence[ScalingRow], costs: Costs = NO_COSTS, without: Sequence[str] = ()
) -> Table:
    """Return the terminal table, without the columns `without`."""
    return terminal_grid(_cells(rows, *filled_table(rows, costs)), without)


def trouble_lines(troubles: Sequence[str]) -> list[str]:
    """Return one line per part of a run that could not be read."""
    more = [f"{len(troubles) - _MOST_TROUBLES} more"] if len(troubles) > _MOST_TROUBLES else []
    return [f"UNREADABLE, skipped: {one}" for one in [*troubles[:_MOST_TROUBLES], *more]]


def markdown(
    rows: Sequence[ScalingRow], costs: Costs = NO_COSTS, failures: Failures | None = None
) -> str:
    """Return the table and its notes in Markdown."""
    text = markdown_table(*filled_table(rows, costs), _TEXT)
    points, columns = notes(rows, costs, failures)
    parts = [
        text,
        *(["### Notes", markdown_list(points)] if points else []),
        *(["### How to read the table", markdown_list(columns)] if columns else []),
    ]
    return "\n\n".join(parts) + "\n"


def short_table(
    rows: Sequence[ScalingRow], costs: Costs = NO_COSTS
) -> tuple[list[str], list[list[str]]]:
    """Return header and cells of the short table.

    It has a batch, a status, costs or an accuracy only if points differ in it, one is not ok, there
    are prices, or a point was validated. Each stop accuracy has a column of the times to it.
    """
    money = cost_headers(costs) if costs.prices else ()
    chosen = next((one.chosen_baseline for one in rows if one.chosen_baseline), None)
    efficiency = f"efficiency vs {chosen}" if chosen else "efficiency"
    fields = varying_columns(rows)
    first = [*HEADER[:_NAMED], *fields, "devices"]
    times = target_columns(rows)
    names = [*first, "images/s", efficiency, *money, *times]
    names += ["accuracy", "verdict", "quality", "status"]
    found = []
    for row in rows:
        full = dict(zip(first, cells(row, fields), strict=False))
        rate = row.rate if row.trial.mode != "bandwidth" else None
        shown = row.shown_scaling
        cell_of = {"images/s": format_rate(rate) if rate else "", efficiency: _efficiency(shown)}
        marked = f" {MARK}" * row.has_caveats
        cell_of |= {"quality": f"{row.quality or ''}{marked}", "status": row.status}
        cell_of |= {"accuracy": _accuracy(row), "verdict": verdict_cell(row)}
        cell_of |= dict(zip(money, map(_amount, costs.found(row)), strict=False))
        cell_of |= dict(zip(times, target_cells(row, times), strict=True))
        found.append([str((full | cell_of)[name]) for name in names])
    if len({tuple(one[: len(first)]) for one in found}) < len(found):
        names.insert(len(first), "batch")
        for one, row in zip(found, rows, strict=True):
            one.insert(len(first), str(row.trial.device_batch))
    needed = [
        is_filled(name, column) and (name != "status" or any(one != "ok" for one in column))
        for name, column in zip(names, zip(*found, strict=True), strict=True)
    ]
    return list(compress(names, needed)), [list(compress(one, needed)) for one in found]


def _cells(
    rows: Sequence[ScalingRow], names: Sequence[str], found: Sequence[Sequence[str]]
) -> Cells:
    """Return a terminal table's content, each row colored by its status."""
    styles = [{"ok": "", "unstable": "yellow"}.get(row.status, "red") for row in rows]
    return Cells(names=names, rows=found, styles=styles, texts=_TEXT)


def _spare(rows: Sequence[ScalingRow], costs: Costs) -> list[str]:
    """Return the columns to leave out on a narrow terminal, in this order."""
    all_ok = all(row.status == "ok" and not row.has_caveats for row in rows)
    timed = any(row.time_to_accuracy for row in rows)
    needed = [name for name in _NEEDED if timed or name != "efficiency"]
    return [*(["status"] if all_ok else []), *_OPTIONAL, *cost_headers(costs), *needed]


def _below_short_table(rows: Sequence[ScalingRow], in_full: bool) -> list[str]:
    """Return marks, points with notes by kind, and the options that print more.

    'Notes: busy machine (5 points), others (4 points).' `in_full`: all notes follow.
    """
    good = [row for row in rows if row.rate]
    marked = grouped(
        (text, row)
        for row in good
        for text in dict.fromkeys(kind.reason for kind in row.headline_kinds)
    )
    plain = [row for row in good if any(not note.kind.headline for note in row.notes)]
    parts = [_counted(text, len(some)) for text, some in marked.items()]
    parts += [_counted("others" if parts else "remarks", len(plain))] if plain else []
    notes = f"Notes: {', '.join(parts)}. " if parts else ""
    full = "" if in_full else "--notes prints the notes in full; "
    text = f"{notes}fab report.show: {full}--wide prints and explains all columns."
    return [*([_OVERSUBSCRIBED] if any(row.emulated for row in rows) else []), text]


def _counted(text: str, count: int) -> str:
    return f"{text} ({count} point{'s' if count > 1 else ''})"


def show(
    run: Run,
    costs: Costs = NO_COSTS,
    failures: Failures | None = None,
    parts: Collection[str] = (WIDE, NOTES),
) -> None:
    """Print a run's summary and table, in full width if stdout is not a terminal.

    `parts` adds all columns with their explanation (WIDE) and the notes on points (NOTES).

    Other parts that fail are named in their place and in `failures`. Points without a result come
    last, where an operator looks first.
    """
    simulated = "SIMULATED " if run.rehearsal else ""
    description = run.environment.get("description")
    title = f"{simulated}{run.name}" + (f": {description}" if description else "")
    wide = WIDE in parts
    shown = _cells(run.rows, *(filled_table if wide else short_table)(run.rows, costs))
    grid, left_out = terminal_grid(shown), list[str]()
    console = screen_for(grid)
    width = text_width(console)
    if is_limited(console):
        grid, left_out = fitting_grid(shown, _spare(run.rows, costs), width)
    words = attempt_items(failures, "summary", lambda: summary_items(run))
    machine = attempt_text(failures, "machine", lambda: provenance(run))
    shared = attempt_text(failures, "settings", lambda: settings_line(run.rows))
    hidden = [f"Hidden on this narrow terminal, shown in report.md: {', '.join(left_out)}."]
    head = [Item(text) for text in (title, machine, shared) if text]
    troubles = [Item(one) for one in trouble_lines(run.troubles)]
    failed = attempt_items(
        failures, "points without a result", lambda: failure_items(run.rows, run.missing)
    )
    moved = any(row.trial.mode == "bandwidth" for row in run.rows)  # their notes have the result
    points, columns = notes(run.rows, costs, failures, {*parts, NOTES} if moved else parts)
    sections = {
        "Notes": points,
        "How to read the table": columns,
        "Peak memory per rank": memory_items(run.rows) if wide else [],
        "Points without a result": failed,
    }

    def lines(items: Sequence[Item], indent: str = "") -> list[Text]:
        return [line(one) for one in plain_lines(items, width, indent)]

    blank, grid = line(""), joined_columns(grid, console.width)
    console.print(*lines(head), blank, *lines(words), *lines(troubles), grid, sep="\n")
    console.print(*lines([Item(one) for one in hidden if left_out]), sep="\n")
    if not wide:
        below = _below_short_table(run.rows, in_full=NOTES in parts)
        console.print(*lines([Item(text) for text in below]), blank, sep="\n")
    for title, items in sections.items():
        if items:
            console.print(line(f"{title}:"), *lines(items, "  "), blank, sep="\n")
