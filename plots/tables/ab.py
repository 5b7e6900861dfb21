"""The comparison of two settings, written as Markdown and CSV to the run's report."""

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from bench.notes import CONTRADICTED, Note, NoteKind, merged, texts, whole
from plots.format import REHEARSAL_NOTE, in_line, list_names, significant
from plots.results_csv import csv_text
from plots.tables.scaling import rate_unit
from results.comparison.ab import BLOCK, block_log_ratios, percent
from results.errors import store_errors
from results.quality import own_doubts
from results.rates import rate_of
from results.record import Record, grouped, notes_of
from results.run_folder import AB_TABLE, AB_TEXT, REPORT
from results.store import write_text

_MOST_NAMED = 6
_AGAIN = "Measure again on an idle machine with a new --run NAME"
_COLUMNS = ("run", "block", "setting", "repeat", "images_per_second", "message")


def page(lines: Sequence[str], records: Sequence[Record]) -> str:
    """Return Markdown: the result lines, a table of blocks, and notes on runs."""
    rates = [rate_of(record) for record in records]
    table = ["| block | A (images/s) | B (images/s) | B vs A |", "|--:|--:|--:|--:|"]
    for number, one in enumerate(block_log_ratios(rates)):
        a, first, second, b = rates[len(BLOCK) * number : len(BLOCK) * (number + 1)]
        cells = (f"{a:.4g}, {b:.4g}", f"{first:.4g}, {second:.4g}", percent(math.expm1(one)))
        table.append(f"| {number + 1} | {' | '.join(cells)} % |")
    listed = [f"- {in_line(line)}" for line in [*lines, *remarks(records)]]
    return "\n".join(["# B vs A", "", *listed, "", *table, ""])


def throughput_line(records: Sequence[Record]) -> str:
    """Return the mean throughput of A and of B with the number of runs.

    records: complete blocks, in the order of execution.
    """
    name, size = rate_unit(records[0].trial)
    texts = []
    for side in "AB":
        own = [rate_of(one) for n, one in enumerate(records) if BLOCK[n % len(BLOCK)] == side]
        texts.append(f"{side} {significant(fmean(own) / size, 4)} {name} (n = {len(own)})")
    return f"mean throughput: {', '.join(texts)}"


def remarks(records: Sequence[Record]) -> list[str]:
    """Return the notes on runs, each once: 'runs 2, 3 (B): ...'."""
    notes = merged([notes_of(record) for record in records])
    rehearsal = any(record.trial.scripted for record in records)
    return [
        *([REHEARSAL_NOTE] if rehearsal else []),
        *_sources(records),
        *(f"{_runs(note, len(records))}: {whole(note)}" for note in notes),
    ]


def _sources(records: Sequence[Record]) -> list[str]:
    """Return what reported the figures of A and of B, if mxscale did not measure them."""
    sides = {
        side: {one.source for n, one in enumerate(records) if BLOCK[n % len(BLOCK)] == side}
        for side in "AB"
    }
    found = grouped((source, side) for side, some in sides.items() for source in sorted(some))
    return [f"{' and '.join(on)}: {source}" for source, on in found.items() if source]


def busy_lines(busy: Sequence[str]) -> list[str]:
    """Return a line on what other programs used before the first run, if anything."""
    return [f"doubtful: {'; '.join(busy)} before the first run. {_AGAIN}"] if busy else []


def doubtful_lines(records: Sequence[Record]) -> list[str]:
    """Return a line on brief runs, and one on others that were not reliable."""
    brief = [one for one in records if NoteKind.BRIEF in {note.kind for note in notes_of(one)}]
    count = sum(bool(own_doubts(notes_of(record))) for record in records)
    wrong = sum(any(n.kind in CONTRADICTED for n in notes_of(one)) for one in records)
    remedy = "Correct what the program prints" if wrong else _AGAIN
    of, steps = len(records), max((r.trial.measuring.steps_per_window for r in brief), default=0)
    return [
        *(
            f"doubtful: {len(brief)} of {of} runs were too short to be reliable. Increase "
            f"steps_per_window, now {steps}, in the settings of both A and B"
            for _ in brief[:1]
        ),
        *(
            f"doubtful: {count} of {of} runs were not reliable (see their notes). {remedy}"
            for _ in range(min(count, 1))
        ),
    ]


def _runs(note: Note, of: int) -> str:
    """Return the runs that have this note."""
    numbers = list(note.scope.get("repeats", range(1, of + 1)))
    sides = "".join(sorted({BLOCK[(number - 1) % len(BLOCK)] for number in numbers}))
    which = "run" if len(numbers) == 1 else "runs"
    listed = list_names(list(map(str, numbers)), _MOST_NAMED)
    return f"{which} {listed} ({' and '.join(sides)})"


def table(records: Sequence[Record]) -> str:
    """Return CSV, one row per run, in the order of execution."""
    rows: list[Sequence[object]] = [_COLUMNS]
    for number, record in enumerate(records):
        block, place = divmod(number, len(BLOCK))
        rate, repeat = rate_of(record), record.identity.repeat
        words = "; ".join(texts(notes_of(record)))
        rows.append([number + 1, block + 1, BLOCK[place], repeat + 1, rate, words])
    return csv_text(rows)


def write(folder: Path, lines: Sequence[str], records: Sequence[Record]) -> list[Path]:
    """Write ab.md and ab.csv to the run's report folder; StoreError if that fails."""
    report = folder / REPORT
    texts = {report / AB_TEXT: page(lines, records), report / AB_TABLE: table(records)}
    with store_errors(report, "written"):
        report.mkdir(exist_ok=True)
    for path, content in texts.items():
        write_text(path, content)
    return list(texts)
