"""The comparison of two runs: terminal, Markdown and CSV, from the same cells."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rich.text import Text

from bench.notes import Note, NoteKind, sentence
from bench.settings.point_names import point_names
from im2rec_tools.console import cell, screen_for
from im2rec_tools.terminal import printable
from plots.format import REHEARSAL_NOTE, in_line, list_names, significant
from plots.quality import next_command
from plots.results_csv import csv_text
from plots.tables.layout import markdown_table, terminal_table
from plots.tables.scaling import rate_unit
from results.comparison.ab import percent
from results.comparison.compare import VERDICTS, Change, Comparison
from results.quality import own_doubts
from results.rates import ASSUMED_SCATTER
from results.record import grouped
from results.run import Run
from results.scaling import ScalingRow

HEADER = ("point", "A", "B", "B / A", "95 % CI", "n", "MDE", "verdict")
COLUMNS = (
    *("point", "unit", "a", "b", "ratio", "low", "high", "n_a", "n_b", "visible"),
    *("verdict", "why", "settings"),
)
_TEXT = ("point", "verdict")
_STYLES = {"regressed": "red", "lost": "red", "improved": "green", "new": "green"}
_STYLES |= {"doubtful": "yellow"}
_DECIDED = ("improved", "regressed", "doubtful")
# Verdicts as tables print them, if the stored value is no standard term.
_VERDICT_WORDS = {"undecided": "inconclusive", "lost": "missing in B", "new": "only in B"}
# Scripted times differ by rounding.
_ROUNDING = 1e-9
_TENFOLD = 9.0
_MOST_NAMED = 3


def heading(found: Comparison) -> str:
    """Return the changed setting, if there is one, and the runs."""
    runs = f"{found.b.name} (B) vs {found.a.name} (A)"
    return f"{found.subject}: {runs}" if found.subject else runs


def verdict_counts(found: Comparison) -> str:
    """Return points by verdict: '27 points: 1 regressed, 26 inconclusive'."""
    counts = [(len(found.having(verdict)), verdict) for verdict in VERDICTS]
    words = ", ".join(f"{count} {_verdict(verdict)}" for count, verdict in counts if count)
    count = len(found.changes)
    return f"{count} point{'' if count == 1 else 's'}: {words}"


def _verdict(verdict: str) -> str:
    return _VERDICT_WORDS.get(verdict, verdict)


def named_changes(found: Comparison) -> list[tuple[str, Change]]:
    """Return each point with its name and distinguishing fields."""
    names = point_names([one.trial for one in found.changes])
    return list(zip(names, found.changes, strict=True))


def _rate(row: ScalingRow | None) -> str:
    if row is None:
        return "-"
    if row.rate is None:
        return row.status
    name, size = rate_unit(row.trial)
    other = "" if name == "images/s" else f" {name}"
    return f"{significant(row.rate.images_per_second / size, 4)}{other}"


def _detectable(change: Change) -> str:
    if change.detectable is None:
        return ""
    if change.detectable < _ROUNDING:
        return "0 %"
    return "tenfold" if change.detectable > _TENFOLD else f"{percent(change.detectable)} %"


def cells(name: str, change: Change) -> tuple[str, ...]:
    """Return the point's cells under `HEADER`, as text."""
    ratio = change.ratio
    known = ratio and ratio.low and ratio.high
    repeats = (str(row.rate.repeats) if row and row.rate else "-" for row in (change.a, change.b))
    return (
        name,
        _rate(change.a),
        _rate(change.b),
        f"{ratio.value:.3f}" if ratio else "",
        f"{ratio.low:.3f} - {ratio.high:.3f}" if ratio and known else "",
        " / ".join(repeats),
        _detectable(change),
        _verdict(change.verdict),
    )


def remarks(found: Comparison) -> list[str]:
    """Return the lines below the table: runs, differences, noise model, notes."""
    points = sum(one.detectable is not None for one in found.changes)
    lines = [f"A: {_run_description(found.a)}.", f"B: {_run_description(found.b)}."]
    if found.a.rows == found.b.rows:
        lines.append("A and B are the same run; this comparison shows nothing new.")
    for name, run in (("A", found.a), ("B", found.b)):
        lines += [f"{name}: unreadable, skipped: {trouble}." for trouble in run.troubles]
        if run.missing:
            lines.append(f"{name}: not measured yet: {list_names(run.missing, _MOST_NAMED)}.")
    lines += [*_costs(found), *differences(found)]
    if points:
        lines += [
            *_noise_model(found),
            f"verdicts: corrected for {points} comparison{'s' * (points > 1)} (Holm). Under this "
            f"model, the probability of any false verdict is at most 5 %.",
            "MDE: minimum detectable effect at 90 % power.",
        ]
    if found.a.rehearsal or found.b.rehearsal:
        lines.append(f"{REHEARSAL_NOTE}.")
    return [*lines, *_point_remarks(found), *_measure_again(found)]


def _costs(found: Comparison) -> Iterator[str]:
    """Yield a note if only one side's throughput includes the costs of imported logs."""
    pairs = [(one.a, one.b) for one in found.changes if one.a and one.b]
    for name, first, second in (("A", 0, 1), ("B", 1, 0)):
        if any(
            _is_imported(pair[first])
            and not (_is_imported(pair[second]) or pair[second].trial.mxnet.costs != "none")
            for pair in pairs
        ):
            yield f"{name}: {sentence(Note(NoteKind.LOG_COSTS))}."


def _is_imported(row: ScalingRow) -> bool:
    return any(note.kind == NoteKind.LOG_COSTS for note in row.notes)


def differences(found: Comparison) -> list[str]:
    """Return one line per difference, and one for facts that only one run has."""
    both = [one for one in found.differences if one.a and one.b]
    lines = [f"{'relevant' if one.matters else 'other'} difference: {one}." for one in both]
    alone = {
        "A": [one.name for one in found.differences if not one.b],
        "B": [one.name for one in found.differences if not one.a],
    }
    lines += [
        f"known for {name} only: {', '.join(facts)}." for name, facts in alone.items() if facts
    ]
    return lines


def _point_remarks(found: Comparison) -> list[str]:
    """Return the notes on points; points with the same note share a line."""
    notes = grouped(
        (_explanation(replace(change, settings=() if found.subject else change.settings)), name)
        for name, change in named_changes(found)
    )
    return [f"{list_names(names, _MOST_NAMED)}: {text}." for text, names in notes.items() if text]


def _measure_again(found: Comparison) -> Iterator[str]:
    """Yield the compared points that are doubtful in a run, why, and the next command."""
    compared = [(name, one) for name, one in named_changes(found) if one.ratio]
    sides = (
        ("A", found.a, [(name, one.a) for name, one in compared]),
        ("B", found.b, [(name, one.b) for name, one in compared]),
    )
    for side, run, rows in sides:
        own = {name: row for name, row in rows if row and own_doubts(row.quality_notes)}
        kinds = dict.fromkeys(n.kind for row in own.values() for n in own_doubts(row.quality_notes))
        if not own:
            continue
        why = ", ".join(dict.fromkeys(kind.reason for kind in kinds))
        command = next_command(run, [*own.values()])
        again = f" with '{command}'" if command else ""
        remedy = f"Measure again on an idle machine{again}"
        if set(kinds) == {NoteKind.OVERSUBSCRIBED}:
            remedy = "Compare points of no more devices than the machine has"
        yield f"{side}: doubtful: {list_names([*own], _MOST_NAMED)} ({why}). {remedy}."


def why_text(change: Change) -> str:
    """Return the verdict's reason; for a doubtful point, those of both sides."""
    if change.verdict != "doubtful":
        return change.why
    rows = (("A", change.a), ("B", change.b))
    kinds = {
        name: dict.fromkeys(note.kind.reason for note in own_doubts(row.quality_notes))
        for name, row in rows
        if row
    }
    return "; ".join(
        f"doubtful in {name}: {', '.join(texts)}" for name, texts in kinds.items() if texts
    )


def _explanation(change: Change) -> str:
    """Return the verdict's reason; a point with a verdict adds the notes of its runs."""
    rows = (("A", change.a), ("B", change.b)) if change.verdict in _DECIDED else ()
    doubts = [f"note in {name}: {row.note_text}" for name, row in rows if row and row.note_text]
    differs = f"differs in {', '.join(map(str, change.settings))}" if change.settings else ""
    return "; ".join(filter(None, (why_text(change), differs, *doubts)))


def _run_description(run: Run) -> str:
    commit, date = run.environment.get("commit"), str(run.environment.get("date", ""))[:10]
    published = run.environment.get("source")
    parts = (run.name, date, commit and f"commit {commit}", published and f"published: {published}")
    return ", ".join(str(part) for part in parts if part)


def _noise_model(found: Comparison) -> list[str]:
    """Return the assumptions of CIs and verdicts about run-to-run variance."""
    lines = []
    if found.scatter:
        lines.append(
            f"noise model: repeats of all points in A and B have one run-to-run standard "
            f"deviation, {percent(found.scatter.size)} % "
            f"({found.scatter.degrees_of_freedom:.0f} degrees of freedom); a point whose "
            f"repeats vary more uses its own. Points and repeats are independent."
        )
    judged = [one for one in found.changes if one.detectable is not None]
    once = {
        "A": any(one.a and one.a.rate and one.a.rate.assumed for one in judged),
        "B": any(one.b and one.b.rate and one.b.rate.assumed for one in judged),
    }
    single = " and in ".join(name for name, is_so in once.items() if is_so)
    if single:
        lines.append(
            f"n = 1 in {single}: the windows of one process do not show run-to-run variance. A "
            f"standard deviation of {percent(ASSUMED_SCATTER)} % is assumed, as on a quiet "
            f"machine; on a busier one, more verdicts are false. Run 3 repeats or more to measure "
            f"it."
        )
    return lines


def show(found: Comparison) -> None:
    """Print the comparison, in full width if stdout is not a terminal."""
    title = f"{heading(found)}, images/s"
    table = terminal_table(HEADER, _TEXT, title)
    for name, change in named_changes(found):
        # Brackets in user texts and error messages are printed literally.
        table.add_row(*map(cell, cells(name, change)), style=_STYLES.get(change.verdict, ""))
    table.caption = Text("\n".join(map(printable, [verdict_counts(found) + ".", *remarks(found)])))
    screen_for(table).print(table)


def markdown(found: Comparison) -> str:
    """Return the comparison in Markdown."""
    table = markdown_table(HEADER, [cells(*one) for one in named_changes(found)], _TEXT)
    lines = "".join(f"- {in_line(line)}\n" for line in remarks(found))
    title = f"# {in_line(heading(found))}, images/s"
    return f"{title}\n\n{verdict_counts(found)}.\n\n{table}\n\n{lines}"


def table(found: Comparison) -> str:
    """Return CSV, one row per point under `COLUMNS`, full digits; unit by `rate_unit`."""
    return csv_text([COLUMNS, *(_values(name, change) for name, change in named_changes(found))])


def _values(name: str, change: Change) -> Sequence[object]:
    word, size = rate_unit(change.trial)
    rates = [row.rate if row else None for row in (change.a, change.b)]
    ratio = change.ratio
    return (
        name,
        word,
        *(rate.images_per_second / size if rate else None for rate in rates),
        *((ratio.value, ratio.low, ratio.high) if ratio else (None, None, None)),
        *(rate.repeats if rate else 0 for rate in rates),
        change.detectable,
        change.verdict,
        why_text(change),
        "; ".join(map(str, change.settings)),
    )
