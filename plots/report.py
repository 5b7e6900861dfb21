"""The report of a run: results.csv, report.md, the page and the figures."""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from importlib import metadata
from pathlib import Path

from plots import results_csv
from plots.failures import Failures
from plots.figures.pictures import Pictures, draw_figures
from plots.markdown import document
from plots.page.page import packed_library, page
from plots.results_csv import save_parquet, table_csv
from results.comparison.baselines import readable_baselines, saved_times
from results.cost.cost import NO_COSTS, Costs
from results.errors import store_errors
from results.integrity.digest import ReportSettings
from results.prediction.calibration import NO_PREDICTIONS, Predictions
from results.run import Run
from results.run_folder import FIGURE, PAGE, PARQUET, PICTURES, REPORT, TABLE, TEXT, UPSTREAM
from results.store import write_text

# Other versions of these drawing libraries make other pages and figures.
_LIBRARIES = ("jinja2", "matplotlib", "pillow", "plotly")


def build(  # noqa: PLR0913 - a run, and what a report shows beside it
    run: Run,
    costs: Costs = NO_COSTS,
    over: Run | None = None,
    failures: Failures | None = None,
    predictions: Predictions = NO_PREDICTIONS,
    *,
    baselines: Sequence[Run] | None = None,
    drawn: Callable[[], Pictures] | None = None,
) -> list[Path]:
    """Write RUN/report/ and return the paths of its files.

    The files are results.csv, report.md, index.html, scaling.svg and scaling.png. The figure shows
    the run `over` behind this one; a run without training points has no figure. threads.svg and
    threads.png show input-pipeline benchmarks with several thread counts. The page shows the
    history of the points in `baselines`, by default those beside the run's folder. `drawn` waits
    for figures that another process draws; without it, this one does.

    A file that cannot be made is left out and named in `failures`; without `failures`,
    RuntimeError names it after the other files are written. StoreError if the folder is unwritable.
    """
    if failures is None:
        failures = Failures()
        paths = build(run, costs, over, failures, predictions, baselines=baselines, drawn=drawn)
        if failures.lines:
            raise RuntimeError("; ".join(failures.lines))
        return paths
    folder = _folder(run)
    past = baselines
    if past is None:
        past = readable_baselines(run.folder, saved_times(run.folder))
    texts: dict[str, Callable[[], str]] = {
        TABLE: lambda: table_csv(run.rows, costs, run.commit),
        TEXT: lambda: document(run, costs, failures, predictions),
        PAGE: lambda: page(
            *(run, costs, over, failures, predictions),
            static=lambda: _static(pictures()),
            baselines=past,
        ),
    }
    pictures = cache(drawn or partial(draw_figures, run, over, predictions))
    with store_errors(folder, "written"), ThreadPoolExecutor(1) as beside:
        beside.submit(packed_library)  # for the page
        written = []
        for name, make in texts.items():
            if text := failures.attempt(name, make, ""):
                write_text(folder / name, text)
                written.append(folder / name)
        written += pictures().paths
        failures.lines += pictures().failures
        # Delete optional files of an earlier report as well.
        upstreams = folder / UPSTREAM
        asked = [] if upstreams.is_symlink() else upstreams.glob("*.csv")
        for path in (*(folder / name for name in (*texts, *PICTURES, PARQUET)), *asked):
            if path not in written:
                path.unlink(missing_ok=True)  # left by an earlier report of other records
    return written


def _static(pictures: Pictures) -> str:
    """Return scaling.svg, for the page; '' if it was not made."""
    found = (path for path in pictures.paths if path.name == FIGURE)
    return next((path.read_text(encoding="utf-8") for path in found), "")


def write_upstream(run: Run, _: Costs) -> list[Path]:
    """Write RUN/report/upstream/: upstream's CSV, one file per network."""
    folder = _folder(run, UPSTREAM)
    texts = results_csv.upstream_tables(run.rows)
    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]


def write_parquet(run: Run, costs: Costs) -> list[Path]:
    """Write the rows of results.csv to results.parquet; StoreError without pyarrow."""
    path = _folder(run) / PARQUET
    save_parquet(run.rows, costs, run.commit, path)
    return [path]


def choice(run: Run, baseline: str = "", over: str = "", predictions: int = 0) -> ReportSettings:
    """Return the settings of a report of this run, as report/digests.json stores them.

    predictions  number of lines of predictions.jsonl that it shows
    """
    return ReportSettings(
        baseline=baseline,
        over=over,
        place=run.location,
        libraries=libraries(),
        predictions=predictions,
        baselines=saved_times(run.folder),
    )


def libraries() -> dict[str, str]:
    """Return the versions of the drawing libraries."""
    return {name: metadata.version(name) for name in _LIBRARIES}


# Optional files, by the option of report.build that adds them.
EXTRA: Mapping[str, Callable[[Run, Costs], list[Path]]] = {
    "upstream-csv": write_upstream,
    "parquet": write_parquet,
}


def _folder(run: Run, below: str = "") -> Path:
    folder = run.folder / REPORT / below
    with store_errors(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)  # fail on an unwritable folder before drawing
    return folder
