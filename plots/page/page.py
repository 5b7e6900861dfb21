"""The web page of a run: index.html, one self-contained file."""

import json
import re
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from bench.notes import texts
from plots.failed_repeats import TRY_HEADER, try_rows
from plots.failures import Failures, attempt_items, attempt_lines
from plots.figures.caption import hardware, settings_line, varied_line
from plots.format import has_assumed_scatter, status_text
from plots.items import one_sentence
from plots.page.baselines import HistoryTable, history_table
from plots.page.commands import reproduce_note
from plots.page.details import packed, packed_details
from plots.page.facts import environment_facts, host_table
from plots.page.panels import panel_data
from plots.page.ratios import RatioTable, ratio_table
from plots.page.tiles import tiles
from plots.summary import key_items, summary_items
from plots.tables import predictions
from plots.tables.scaling import (
    column_notes,
    cost_headers,
    filled_table,
    point_notes,
    trouble_lines,
)
from results.cost.cost import JOULE, NO_COSTS, Costs
from results.integrity.digest import FORMAT
from results.prediction.calibration import NO_PREDICTIONS, Predictions
from results.quality import Quality
from results.rates import ASSUMED_SCATTER
from results.run import Run

HERE = Path(__file__).parent
SCRIPTS = (
    *("data", "theme", "axes", "marks", "panels", "controls", "table", "replay", "point"),
    *("keyboard", "downloads", "why"),
    "costs",
    "state",  # last: it sets the controls, and starts the page
)
# Columns that a narrow screen hides, besides the costs and further baselines.
_EXTRA = frozenset(
    {"batch", "95 % CI", "n", "accuracy", "time to accuracy", "epochs", "verdict", "quality"}
)
# Widths of characters in common fonts by that of a digit.
_WIDTHS = dict.fromkeys(" .,:;'!|/()[]-fijlrt", 0.6) | dict.fromkeys("mwMW%@±", 1.5)
# A larger static figure leaves too little room for the details of the points.
_MOST_STATIC = 1_000_000
# A larger page is slow to open and hard to send.
MOST_BYTES = 3_900_000


# A style in an inline SVG applies to the whole page.
_PAGE_WIDE = re.compile(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", re.DOTALL)
# Places of what is known last. Texts of a run cannot contain them, because they are escaped.
_PLACES = {name: Markup(f"<!--{name}-->") for name in ("static", "limit", "details")}
_STATIC = """<div class="static" role="img" aria-label="Scaling by number of devices; the table\
 below lists the values">{}</div>"""
_LIMIT = """<p class="hint" id="decimated">To keep this page small, it shows at most {0} windows and
    {0} ranks per repeat, including the slowest and the fastest. The run's records.jsonl has
    all of them.</p>"""
_packed = lru_cache(maxsize=1)(packed)


def packed_library() -> str:
    """Return plotly.js as the page has it."""
    return _packed(get_plotlyjs())


def page(  # noqa: PLR0913 - a run, and what a report shows beside it
    run: Run,
    costs: Costs = NO_COSTS,
    over: Run | None = None,
    failures: Failures | None = None,
    predicted: Predictions = NO_PREDICTIONS,
    *,
    static: Callable[[], str] = str,
    baselines: Sequence[Run] = (),
) -> str:
    """Return the page as HTML, with the run `over`, if given, as gray dashed lines.

    `static` waits for scaling.svg, which browsers without JavaScript show. `baselines` have earlier
    results of its points.

    If a part of the text fails, raise, or with `failures` add a line to it and print that line in
    place of the part.
    """
    ratios = _ratios(run, over, failures)
    data = {
        "run": panel_data(run, costs),
        "over": panel_data(over) if over else None,
        "ratios": ratios.places or None,
    }
    known = _known(run, costs, data, failures)
    known["past"] = _past(run, baselines, failures)
    known |= {"ratios": ratios, "over": over, "behind": over.sources if over else []}
    known["predicted"] = _predicted(run, predicted) if predicted.scored else None
    text = _template().render(**known, places=_PLACES)
    svg = inline_svg(static())
    shown = _STATIC.format(svg) if svg and len(svg) < _MOST_STATIC else ""
    left = MOST_BYTES - len(text.encode("utf-8", "replace")) - len(shown.encode())
    details, kept = packed_details(run, left)
    if len(details) > left:  # of a very large run, whose details cannot be shorter
        shown = ""
    limit = "" if kept is None else _LIMIT.format(kept)
    for name, part in (("static", shown), ("limit", limit), ("details", details)):
        text = text.replace(_PLACES[name], part, 1)
    return text.encode("utf-8", "replace").decode()  # host facts may hold what UTF-8 cannot


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html")


def _known(
    run: Run, costs: Costs, data: dict[str, Any], failures: Failures | None
) -> dict[str, Any]:
    environment = run.environment
    drawn = data["run"]
    return {
        "run": run,
        "format": FORMAT,
        "data": data,
        "packed_data": packed(json.dumps(data, separators=(",", ":"), allow_nan=False)),
        "tiles": tiles(run.rows),
        "explained": any(row.verdict for row in run.rows),
        "keys": attempt_items(failures, "first sentences", lambda: key_items(run)),
        "words": attempt_items(failures, "summary", lambda: summary_items(run)),
        "troubles": trouble_lines(run.troubles),
        "machine": hardware(environment),
        "settings": settings_line(run.rows),
        "varied": varied_line(run.rows),
        "date": str(environment.get("date", ""))[:10],
        "commit": environment.get("commit", ""),
        "sources": run.sources,
        **_table(run, costs),
        "money": next((unit for unit in costs.units if unit != JOULE), ""),
        "notes": attempt_lines(failures, "notes on columns", lambda: column_notes(run.rows, costs)),
        "point_notes": attempt_items(failures, "notes on points", lambda: point_notes(run.rows)),
        "assumed": has_assumed_scatter(row.rate for row in run.rows),
        "scatter": f"{100 * ASSUMED_SCATTER:g}",
        "reproduce": reproduce_note(run),
        "status_text": status_text,
        "note_texts": texts,
        "quality_class": _quality_class,
        "one_sentence": one_sentence,
        "try_header": TRY_HEADER,
        "tries": try_rows(run),
        "drawable": bool(drawn["lines"] or drawn["failed"]),
        "facts": environment_facts(environment),
        "hosts": host_table(environment),
        "style": Markup((HERE / "page.css").read_text()),
        "plotly": packed_library(),
        "script": Markup("\n".join((HERE / f"scripts/{one}.js").read_text() for one in SCRIPTS)),
    }


def inline_svg(svg: str) -> str:
    """Return an SVG file as an element of the page; '' if there is none."""
    return _PAGE_WIDE.sub("", svg[svg.index("<svg") :]) if "<svg" in svg else ""


def _ratios(run: Run, over: Run | None, failures: Failures | None) -> RatioTable:
    """Compare the run with the overlaid one; empty without one, or if that fails."""
    if over is None:
        return RatioTable()
    if failures is None:
        return ratio_table(run, over)
    return failures.attempt("ratios", lambda: ratio_table(run, over), RatioTable())


def _quality_class(quality: str) -> str:
    """Return the class of the style sheet for a quality."""
    order = [str(one) for one in (Quality.PUBLISHABLE, Quality.INDICATIVE)]
    return f"quality-{order.index(quality) if quality in order else len(order)}"


def _past(run: Run, baselines: Sequence[Run], failures: Failures | None) -> HistoryTable:
    """Return the history of the points; empty without one, or if that fails."""
    if failures is None:
        return history_table(run, baselines)
    return failures.attempt("history", lambda: history_table(run, baselines), HistoryTable())


def _predicted(run: Run, found: Predictions) -> dict[str, Any]:
    """Return the table, the calibration and the figure of predictions."""
    from plots.figures.forecast import static_figure  # noqa: PLC0415 - it loads Matplotlib

    header, rows = predictions.rows(found)
    return {
        "banner": predictions.BANNER,
        "header": header,
        "rows": rows,
        "lines": predictions.calibration(found),
        "figure": Markup(inline_svg(static_figure(run.rows, found))),
    }


def _width(text: str) -> float:
    """Estimate the width of a text in digits."""
    return sum(_WIDTHS.get(one) or (2 if east_asian_width(one) in "WF" else 1) for one in text)


def _table(run: Run, costs: Costs) -> dict[str, Any]:
    """Return header and rows of the table without empty columns."""
    names, found = filled_table(run.rows, costs)
    extra = [
        name
        for name in names
        if name in _EXTRA or name.startswith(("vs ", "speed-up")) or name in cost_headers(costs)
    ]
    return {
        "header": names,
        "extra": extra,
        "table": list(zip(found, run.rows, strict=True)),
        "widest": [
            max(dict.fromkeys(cells), key=_width, default="")  # equal cells are measured once
            for _, *cells in zip(names, *found, strict=True)
        ],
    }
