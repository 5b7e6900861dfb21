"""What a report says against what its run gives: each cell of results.csv, lines of report.md."""

import csv
import io
import math
from collections.abc import Iterator
from itertools import zip_longest

from plots.document import document
from plots.failures import Failures
from plots.frame import frame
from results.cost import Costs
from results.run import Run

_MOST_NAMED = 3
# Another machine's mathematics may differ in the last digit.
_ALIKE = 1e-9


def wrong_cells(run: Run, costs: Costs, text: str, giver: str) -> Iterator[str]:
    """Where the text of results.csv says other than the run; `giver` is what the run is from."""
    said, found = _rows(text), _rows(frame(run.rows, costs, run.commit).to_csv(index=False))
    header = found[0]
    if not said or said[0] != header:
        yield "results.csv line 1: is not the line of its columns' names"
        return
    if len(said) != len(found):
        yield f"results.csv: {len(said) - 1} rows, {giver} give {len(found) - 1}"
    for number, (one, other) in enumerate(zip(said[1:], found[1:], strict=False), 1):
        name = run.rows[number - 1].trial.name
        if len(one) != len(header):
            yield f"results.csv row {number} ({name}): {len(one)} cells, expected {len(header)}"
            continue
        for column, cell, derived in zip(header, one, other, strict=True):
            if not _alike(cell, derived):
                yield (
                    f"results.csv row {number} ({name}), {column}: says {_shown(cell)}, "
                    f"{giver} give {_shown(derived)}"
                )


def lacks_prices(costs: Costs, text: str) -> bool:
    """Whether the text of results.csv has columns of money, and nothing says at which prices."""
    header = next(iter(_rows(text)), [])
    per = {name for name in header if name.startswith("images_per_")}
    return bool(per - {"images_per_second", "images_per_joule"}) and not costs.prices


def wrong_lines(run: Run, costs: Costs, text: str) -> Iterator[str]:
    """Where the text of report.md is not what would be written now."""
    lines = zip_longest(text.splitlines(), document(run, costs, Failures()).splitlines())
    wrong = [(n, one, other) for n, (one, other) in enumerate(lines, 1) if one != other]
    for number, one, other in wrong[:_MOST_NAMED]:
        yield f"report.md line {number}: {_differing(one or '', other or '')}"
    if len(wrong) > _MOST_NAMED:
        yield f"report.md: {len(wrong) - _MOST_NAMED} more lines are not what the run gives"


def _rows(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def _alike(cell: str, other: str) -> bool:
    if cell == other:
        return True
    try:
        return math.isclose(float(cell), float(other), rel_tol=_ALIKE)
    except ValueError:
        return False


def _shown(cell: str) -> str:
    return cell[:200] or "nothing"


def _differing(one: str, other: str) -> str:
    """The two from a little before where they part."""
    start = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    begin = max(0, start - 20)
    return f"says {one[begin:][:60]!r}, the run gives {other[begin:][:60]!r}"
