"""Validation accuracy by epoch, from the logs of jobs: a table and a figure.

python -m plots.figures.accuracy docs/runs/training/accuracy alexnet=a.log resnet-18=b.log
"""

import re
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

if not __package__:
    print(
        "error: plots/figures/accuracy.py: cannot run as a script. "
        "Run 'python -m plots.figures.accuracy ...' in the checkout",
        file=sys.stderr,
    )
    raise SystemExit(2)

from im2rec_tools.options import ProgramParser
from im2rec_tools.terminal import echo, install_filter
from plots.results_csv import csv_text

_LINE = re.compile(r"^(?:rank 0 )?epoch (\d+): validation accuracy (\d\.\d+)", re.MULTILINE)
_STYLE: Any = {"svg.hashsalt": "mxscale", "axes.grid": True, "grid.color": "#dddddd"}


def accuracies(log: str) -> list[tuple[int, float]]:
    """Return the epochs in a job's log, from 1, each with its validation accuracy."""
    return [(int(epoch) + 1, float(value)) for epoch, value in _LINE.findall(log)]


def draw(curves: dict[str, list[tuple[int, float]]]) -> Figure:
    """Draw one line per job, by epoch."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(6, 3.6), layout="constrained")
        axes = figure.subplots()
        for name, points in curves.items():
            axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name)
        axes.set(xlabel="epoch", ylabel="validation accuracy", ylim=(0, 1))
        axes.legend(loc="lower right")
    return figure


def write(stem: Path, curves: dict[str, list[tuple[int, float]]]) -> None:
    """Write STEM.csv, one row per network and epoch, and STEM.svg."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    rows = ((name, *point) for name, points in curves.items() for point in points)
    text = csv_text([("network", "epoch", "accuracy"), *rows])
    stem.with_suffix(".csv").write_text(text, encoding="utf-8")
    with mpl.rc_context(_STYLE):
        draw(curves).savefig(stem.with_suffix(".svg"), metadata={"Date": None})


def parser() -> ProgramParser:
    """Return the parser of `python -m plots.figures.accuracy`."""
    made = ProgramParser(
        prog="python -m plots.figures.accuracy",
        usage="%(prog)s STEM NAME=LOG ...",
        description="Draw the validation accuracy of jobs over epochs, from their logs.",
    )
    made.add_argument("stem", metavar="STEM", nargs="?", help="Write STEM.csv and STEM.svg")
    text = "Name of a curve, and the log of a worker with lines 'epoch N: validation accuracy'"
    made.add_argument("logs", metavar="NAME=LOG", nargs="*", help=text)
    return made


def main() -> None:
    """Write the files that the command line names; exit 2 if a log has no accuracy."""
    install_filter()
    given = parser().parse_args()
    stem, named = given.stem, given.logs
    curves = {}
    for word in named:
        name, _, path = word.partition("=")
        try:
            curves[name] = accuracies(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            echo(f"error: {path}: {error.strerror}", err=True)
            sys.exit(2)
    empty = [name for name, points in curves.items() if not points]
    if not curves or empty:
        echo(
            f"error: {' '.join(empty) or 'arguments'}: expected STEM NAME=LOG ..., each log with "
            f"lines 'epoch N: validation accuracy', got none",
            err=True,
        )
        sys.exit(2)
    write(Path(stem), curves)


if __name__ == "__main__":
    main()
