"""report.verify: whether a run and its report are as they were, and follow from the raw events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from invoke.exceptions import Exit

from bench.errors import SpecError
from im2rec_tools.terminal import echo
from results.errors import StoreError
from tasks.cli import read_only_command, task
from tasks.report import costs_of, overlay_run, prices_of, run_folder
from tasks.scratch import scratch

if TYPE_CHECKING:  # what needs long to load is loaded when a task runs
    from results.cost.cost import Costs
    from results.cost.prices import Prices
    from results.integrity.digest import Digests
    from results.integrity.rederive import VerifyResult
    from results.run import Run

_MOST_LINES = 200
_MOST_NAMED = 10
# What of a report is made again, cell by cell and line by line.
_DERIVED = ("results.csv", "report.md")
_PICTURES = ("index.html", "scaling.svg", "scaling.png", "threads.svg", "threads.png")
# What bench.ab writes there, and what report.build writes if it is asked to.
_OTHERS = frozenset({"ab.md", "ab.csv"})
_EXTRA = {"upstream-csv": "upstream/", "parquet": "results.parquet"}
_EXPORTS = "exports/"


@dataclass(frozen=True, kw_only=True)
class Built:
    """How a report was built, as far as that is known here.

    behind  the run that was drawn behind it
    excuse  why pages and figures may rightly be others than those made here; '' if they may not
    """

    behind: Run | None = None
    excuse: str = ""


@task(
    help={
        "run": "name below results/runs, or a path; default: the newest",
        "digest": "what 'fab report.build' printed: sha256:...",
        "prices": "file with prices; default: those that the report was built with",
        "over": "the run that the report was built over; default: a published table is found",
    }
)
@read_only_command
def report_verify(c, run="", digest="", prices="", over=""):  # type: ignore[no-untyped-def]
    """Check a run against its digest, and every cell of its report against the raw events."""
    from results.store import writing_process

    expected, folder = _digest(digest), run_folder(run)
    given = prices_of(prices) if prices else None
    if not folder.is_dir():
        raise StoreError(f"{folder}: no such run folder; 'fab results.list' shows those there are")
    if process := writing_process(folder):
        raise StoreError(f"{folder}: a sweep (process {process}) is writing there; wait for it")
    result = verified(folder, expected, given, over)
    for line in result.wrong[:_MOST_LINES]:
        echo(f"WRONG: {line}")
    if len(result.wrong) > _MOST_LINES:
        echo(f"WRONG: {len(result.wrong) - _MOST_LINES} more places")
    for line in result.unchecked:
        echo(f"not checked: {line}")
    for line in result.lacking:
        echo(line)
    echo(f"digest: {result.digest}")
    echo(
        f"derived again: {result.windows} windows of {result.ranks} ranks from their events, "
        f"{result.rows} rows of results.csv"
    )
    if not expected:
        echo(
            "without a --digest from elsewhere this finds accidents: somebody could have changed "
            "all of it and built the report again"
        )
    if result.wrong:
        raise Exit(f"error: {folder}: is not as it has to be, the lines above say where", code=2)
    if result.lacking and expected:
        raise Exit(f"error: {folder}: not all of its report was checked, see above", code=2)
    echo("all that was checked holds")


def verified(
    folder: Path, expected: str = "", prices: Prices | None = None, over: str = ""
) -> VerifyResult:
    """What came out of checking a run, against the digest it is expected to have.

    Costs are at these prices, or else at those that its report was built with; `over` names the run
    that the report was built over.
    """
    from results.integrity.digest import BUILD_AGAIN, FORMAT, REPORT, report_format, run_digests
    from results.integrity.rederive import rederive_run

    now = run_digests(folder)
    again, result = rederive_run(folder)
    result.digest = now.digest
    result.unchecked += _strangers(folder)
    if (folder / REPORT / _EXPORTS).is_dir():
        result.unchecked.append(f"report/{_EXPORTS}, which results.export wrote")
    if (folder / REPORT).exists() and not (folder / REPORT).is_dir():
        result.wrong.append(f"{REPORT}: expected a folder, found a file; {BUILD_AGAIN}")
    was = _kept(folder, result)
    result.wrong[:0] = _files(folder, now, was, expected)
    number = report_format(folder, was)
    if number not in {None, FORMAT}:
        line = f"report not checked: built by format {number}; run fab report.build"
        result.lacking.append(line)
    elif again is not None and number is not None:
        named = _as_built(again, was, result)
        costs = costs_of(named, prices or (was.prices if was else None))
        result.wrong += _report(named, costs, folder, _built(was, over), result)
    return result


def _as_built(run: Run, was: Digests | None, result: VerifyResult) -> Run:
    """The run under the name, at the place and with the baseline that its report was built with."""
    from results.run import with_baseline

    placed = replace(run, place=run.location)
    if was is None:
        return placed
    if was.name != run.name:
        result.unchecked.append(f"the name of the run, which its report calls {was.name!r}")
    if was.prices is not None:
        result.unchecked.append("the prices that the report was built with")
    try:
        placed = with_baseline(placed, was.choice.baseline)
    except SpecError as error:
        result.wrong.append(f"report/digests.json: {error}")
    folder = run.folder.resolve().with_name(was.name or run.name)
    place = placed.place if was.choice.place is None else was.choice.place
    return replace(placed, folder=folder, place=place)


def _built(was: Digests | None, over: str) -> Built:
    """What is known here of how the report was built."""
    from plots.report import libraries
    from results.run import with_baseline

    if was is None:
        return Built(behind=overlay_run(over) if over else None)
    choice, here = was.choice, libraries()
    differing = [
        f"{name} {version}, here {here.get(name, 'none')}"
        for name, version in choice.libraries.items()
        if here.get(name) != version
    ]
    excuse = f"drawn by other library versions ({'; '.join(differing)})" if differing else ""
    behind = None
    if over or choice.over:
        try:
            behind = with_baseline(overlay_run(over or _published(choice.over)), choice.baseline)
        except StoreError:
            if over:
                raise
            excuse = f"drawn over {choice.over!r}; name that run by --over"
    return Built(behind=behind, excuse=excuse)


def _published(name: str) -> str:
    """The name, if it is that of a published table: others are for the verifier to name."""
    from results.comparison.references import table_names

    table = name.removeprefix("reference:")
    if table not in table_names():
        raise StoreError(f"{name}: no published table")
    return f"reference:{table}"


def _strangers(folder: Path) -> Iterator[str]:
    """What of the folder is not looked at, in one line."""
    from results.integrity.digest import unknown_files

    names = [name if name.isprintable() else ascii(name) for name in unknown_files(folder)]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    if names:
        yield f"{', '.join(names[:_MOST_NAMED])}{more}: of no run, and not in the digest"


def _kept(folder: Path, result: VerifyResult) -> Digests | None:
    """What the report said of the files as it was built; without it no place can be named."""
    from results.integrity.digest import NAME, load

    was = None
    try:
        was = load(folder)
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
    from results.integrity.digest import NAME, changes

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


def _report(
    again: Run, costs: Costs, folder: Path, built: Built, result: VerifyResult
) -> Iterator[str]:
    """What is wrong with the report's files."""
    from plots.check import cell_differences, lacks_prices, line_differences
    from results.integrity.digest import REPORT

    giver = "the events" if result.ranks else "the records"
    table = folder / REPORT / "results.csv"
    if table.is_file() and lacks_prices(costs, table.read_text(encoding="utf-8", errors="replace")):
        yield (
            "results.csv: has columns of cost, and at which prices is not known any more; give "
            "--prices FILE, or build the report again"
        )
        return
    for name in _DERIVED:
        path = folder / REPORT / name
        if not path.is_file():
            result.unchecked.append(f"report/{name} is not there")
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if name == "results.csv":
            result.rows = len(again.rows)
            yield from cell_differences(again, costs, text, giver)
        else:
            yield from line_differences(again, costs, text)
    yield from _made(again, costs, folder, built, result)


def _made(
    again: Run, costs: Costs, folder: Path, built: Built, result: VerifyResult
) -> Iterator[str]:
    """Pages, figures and tables that are not those that the run gives, by making them again."""
    from plots.check import file_difference
    from plots.failures import Failures
    from plots.report import EXTRA, build
    from results.integrity.digest import NAME, REPORT

    there = _below(folder / REPORT)
    with scratch() as place:
        run = replace(again, folder=place / again.name)
        build(run, costs, built.behind, Failures())
        for name, where in _EXTRA.items():
            if any(one.startswith(where) for one in there):
                try:
                    EXTRA[name](run, costs)
                except StoreError as error:
                    result.lacking.append(f"report/{where}: not compared: {error}")
        made = _below(run.folder / REPORT)
        for name in sorted(made.keys() - {*_DERIVED, NAME}):
            path = there.pop(name, None)
            if path is None:
                result.unchecked.append(f"report/{name} is not there")
            elif path.is_symlink() or not path.is_file():
                yield f"{name}: is no file"
            elif (said := file_difference(path, made[name])) and built.excuse:
                result.lacking.append(f"{name}: not compared: {built.excuse}")
            elif said:
                yield said
    for name in sorted(there.keys() - {*_DERIVED, NAME}):
        if name in _PICTURES or name.startswith(_EXTRA["upstream-csv"]):
            yield f"{name}: the run gives no such file"
        elif name in _OTHERS:
            result.unchecked.append(f"{name}: compared with report/{NAME} only")
        elif name not in _EXTRA.values():
            shown = name if name.isprintable() else ascii(name)
            result.lacking.append(f"report/{shown}: of no report, not checked")


def _below(report: Path) -> dict[str, Path]:
    """The files and links of a report by their names in it, without those of other tools."""
    found = (path for path in report.rglob("*") if path.is_symlink() or not path.is_dir())
    named = {path.relative_to(report).as_posix(): path for path in found}
    return {name: path for name, path in named.items() if not name.startswith(_EXPORTS)}
