"""report.verify: whether a run and its report are as they were, and follow from the raw events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from invoke.exceptions import Exit

from bench.errors import SpecError
from results.errors import StoreError
from tasks.door import reader, task
from tasks.report import costs_of, prices_of, run_folder

if TYPE_CHECKING:  # what needs long to load is loaded when a task runs
    from results.cost import Costs
    from results.digest import Digests
    from results.prices import Prices
    from results.run import Run
    from results.verify import Verified

_MOST_LINES = 200
_MOST_NAMED = 10
# What of a report is made again, cell by cell and line by line.
_DERIVED = ("results.csv", "report.md")


@task(
    help={
        "run": "name below results/runs, or a path; default: the newest",
        "digest": "what 'fab report.build' printed: sha256:...",
        "prices": "file with prices; default: those that the report was built with",
    }
)
@reader
def report_verify(c, run="", digest="", prices=""):  # type: ignore[no-untyped-def]
    """Check a run against its digest, and every cell of its report against the raw events."""
    from results.store import writer

    expected, folder = _digest(digest), run_folder(run)
    given = prices_of(prices) if prices else None
    if not folder.is_dir():
        raise StoreError(f"{folder}: no such run folder; 'fab results.list' shows those there are")
    if process := writer(folder):
        raise StoreError(f"{folder}: a sweep (process {process}) is writing there; wait for it")
    result = verified(folder, expected, given)
    for line in result.wrong[:_MOST_LINES]:
        print(f"WRONG: {line}")
    if len(result.wrong) > _MOST_LINES:
        print(f"WRONG: {len(result.wrong) - _MOST_LINES} more places")
    for line in result.unchecked:
        print(f"not checked: {line}")
    print(f"digest: {result.digest}")
    print(
        f"derived again: {result.windows} windows of {result.ranks} ranks from their events, "
        f"{result.rows} rows of results.csv"
    )
    if not expected:
        print(
            "without a --digest from elsewhere this finds accidents: somebody could have changed "
            "all of it and built the report again"
        )
    if result.wrong:
        raise Exit(f"error: {folder}: is not as it has to be, the lines above say where", code=2)
    print("all that was checked holds")


def verified(folder: Path, expected: str = "", prices: Prices | None = None) -> Verified:
    """What came out of checking a run, against the digest it is expected to have.

    Costs are at these prices, or else at those that its report was built with.
    """
    from results.digest import digests
    from results.verify import derived

    now = digests(folder)
    again, result = derived(folder)
    result.digest = now.digest
    result.unchecked += _strangers(folder)
    was = _kept(folder, result)
    result.wrong[:0] = _files(folder, now, was, expected)
    if again is not None:
        named = replace(again, folder=folder.with_name(was.name)) if was else again
        costs = costs_of(named, prices or (was.prices if was else None))
        result.wrong += _report(named, costs, folder, result)
    return result


def _strangers(folder: Path) -> Iterator[str]:
    """What of the folder is not looked at, in one line."""
    from results.digest import strangers

    names = [name if name.isprintable() else ascii(name) for name in strangers(folder)]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    if names:
        yield f"{', '.join(names[:_MOST_NAMED])}{more}: of no run, and not in the digest"


def _kept(folder: Path, result: Verified) -> Digests | None:
    """What the report said of the files as it was built; without it no place can be named."""
    from results.digest import NAME, kept

    was = None
    try:
        was = kept(folder)
        if was is None:
            result.unchecked.append(f"report/{NAME} is not there, by which places are named")
    except StoreError as error:
        result.wrong.append(str(error))
    return was


def _digest(text: str) -> str:
    found = text.strip().lower()
    if found and not re.fullmatch(r"(sha256:)?[0-9a-f]{64}", found):
        raise SpecError(f"--digest: expected sha256: and 64 hex digits, got {text!r:.80}")
    return f"sha256:{found.removeprefix('sha256:')}" if found else ""


def _files(folder: Path, now: Digests, was: Digests | None, expected: str) -> Iterator[str]:
    """What is wrong with the run's files."""
    from results.changed import changes
    from results.digest import NAME

    if expected and now.digest != expected:
        yield from _other_digest(was, now, expected)
    elif expected and was is not None and was.digest != expected:
        yield f"report/{NAME}: is of other files; those there have the digest that was given"
    if was is not None:
        yield from changes(folder, was, now)


def _other_digest(was: Digests | None, now: Digests, expected: str) -> Iterator[str]:
    yield f"the digest of its files is {now.digest}, expected {expected}"
    if was is not None and was.digest != expected:
        yield (
            f"report/digests.json has the digest {was.digest}, not the one expected either: the "
            f"report was built again since, or that file was changed with the others"
        )


def _report(again: Run, costs: Costs, folder: Path, result: Verified) -> Iterator[str]:
    """What is wrong with the report's files."""
    from plots.derived import lacks_prices, wrong_cells, wrong_lines
    from results.digest import NAME, REPORT, reported

    giver = "the events" if result.ranks else "the records"
    others = {path.name for path in reported(folder).values()} - set(_DERIVED)
    if others:
        kept = (folder / REPORT / NAME).is_file()
        how = f"compared with report/{NAME} only" if kept else "nothing is there to compare with"
        result.unchecked.append(f"{', '.join(sorted(others))}: {how}")
    table = folder / REPORT / "results.csv"
    if table.is_file() and lacks_prices(costs, table.read_text(encoding="utf-8", errors="replace")):
        yield (
            "results.csv: has columns of cost, and at which prices is not known any more; give "
            "--prices FILE, or build the report again"
        )
        return
    for name in _DERIVED:
        path = folder / "report" / name
        if not path.is_file():
            result.unchecked.append(f"report/{name} is not there")
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if name == "results.csv":
            result.rows = len(again.rows)
            yield from wrong_cells(again, costs, text, giver)
        else:
            yield from wrong_lines(again, costs, text)
