"""results.*: the runs there are, and what becomes of them."""

import os
import shlex
from pathlib import Path

from invoke.exceptions import Exit

from bench.errors import SpecError, quoted
from im2rec_tools.terminal import echo
from results.errors import StoreError
from tasks.door import door, reader, task
from tasks.report import RUNS, archive_of, run_folder

_RUN = "name below results/runs, or a path to its folder or .zip"


@task(help={"in": "a folder of runs besides results/runs"})
@reader
def results_list(c, in_=""):  # type: ignore[no-untyped-def]
    """List the runs there are, newest first: points, hosts, networks, size."""
    from plots.tables.runs import show
    from results.integrity.catalog import INDEX, catalogue

    index, keep = RUNS / INDEX, not c.config.run.dry
    if RUNS.is_dir():
        show(catalogue(RUNS, index, keep=keep), "results/runs")
    elif not in_:
        raise StoreError(f"{RUNS}: no run yet; 'fab bench.sweep' makes one")
    if in_:
        show(catalogue(Path(in_), index, keep=keep), in_)


@task(help={"run": _RUN})
@reader
def results_show(c, run):  # type: ignore[no-untyped-def]
    """Say what a run is and holds: points, files, hosts and how they differ, logs, digest."""
    from plots.figures.caption import machine
    from plots.tables.runs import describe
    from results.integrity.catalog import entry, is_run
    from results.reader import fronts, points
    from results.run_folder import environment_of

    folder = run_folder(run)
    if not is_run(folder):
        raise StoreError(f"{folder}: no such run; 'fab results.list' names those there are")
    environment = environment_of(folder)
    found = points(folder, fronts(folder))
    told = {"machine": machine(environment), "digest": _told_digest(folder)}
    describe(folder, entry(folder), found, environment, **told)


def _told_digest(folder: Path) -> str:
    from results.integrity.digest import kept

    try:
        was = kept(folder)
    except StoreError as error:
        return f"unknown: {error}"
    return was.digest if was else "none yet; 'fab report.build' makes one"


@task(
    help={
        "runs": "names below results/runs, or paths; several with commas between them",
        "yes": "remove them; without it, print only what would be removed",
        "dry_run": "print what --yes would remove, and remove nothing",
    }
)
@door
def results_rm(c, runs, yes=False, dry_run=False):  # type: ignore[no-untyped-def]
    """Remove runs with their logs and reports."""
    from im2rec_tools.files import size
    from results.integrity.catalog import size_of
    from results.run_folder import check_removable, remove
    from results.store import writer

    folders = [_named(name) for name in dict.fromkeys(runs.split(",")) if name.strip()]
    for folder in folders:
        check_removable(folder)
    for folder in folders:
        told = f"{folder} ({size(size_of(folder))})"
        if yes and not dry_run:
            remove(folder)
            echo(f"removed {told}")
        elif process := writer(folder):
            echo(f"would not remove {told}: a sweep (process {process}) is writing there")
        else:
            echo(f"would remove {told}")
    if not (yes or dry_run):
        raise Exit("nothing is removed yet; --yes removes them", code=2)


@task(help={"run": "name below results/runs, or a path", "to": "default: NAME.zip beside the run"})
@door
def results_pack(c, run, to=""):  # type: ignore[no-untyped-def]
    """Pack a run with its logs and report into one .zip, to be moved and reported elsewhere."""
    from im2rec_tools.files import size
    from results.integrity.archive import SUFFIX, pack

    folder = _named(run)
    target = Path(to) if to else folder.resolve().with_name(folder.resolve().name + SUFFIX)
    if target.suffix != SUFFIX:
        raise SpecError(f"--to: expected a name that ends in {SUFFIX}, got {quoted(to)}")
    count = pack(folder, target)
    echo(f"{target}: {count} files, {size(target.stat().st_size)}")


@task(
    help={
        "archive": "a .zip that results.pack made: its path, or the name of its run",
        "run": "name or path of the folder it becomes; default: its own name",
    }
)
@door
def results_unpack(c, archive, run=""):  # type: ignore[no-untyped-def]
    """Unpack a run without its report, below results/runs unless --run is a path."""
    from results.integrity.archive import SUFFIX, unpack
    from results.integrity.digest import REPORT

    named = archive if archive.endswith(SUFFIX) else f"{archive}{SUFFIX}"
    packed = Path(archive) if Path(archive).is_file() else archive_of(named)
    into, name = (_named(run).parent, _named(run).name) if run else (RUNS, "")
    folder = unpack(packed, into, name, without=REPORT)
    echo(folder)
    echo(
        f"without {REPORT}/, which anybody may have written: 'fab report.build --run "
        f"{shlex.quote(folder.name if folder.parent == RUNS else str(folder))}' builds it from "
        f"the records"
    )


def _named(name: str) -> Path:
    """The folder of a run by its name or path; it need not be there."""
    name = name.strip()
    if not name or name in {".", ".."} or name.endswith(".zip"):
        raise SpecError(f"expected the name or path of a run's folder, got {quoted(name)}")
    return Path(name) if os.sep in name else RUNS / name
