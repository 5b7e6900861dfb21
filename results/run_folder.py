"""File names of a run, each defined only here; imports nothing heavy."""

from contextlib import suppress
from pathlib import Path

# One line of JSON per record; beside it, incomplete last lines.
RECORDS = "records.jsonl"
TORN = ".torn"
# The identities that the last sweep requested, a copy of its file, and the environment of the last
# sweep that measured something.
ASKED = "asked.json"
SWEEP = "sweep.toml"
ENVIRONMENT = "environment.json"
# What the controller did, newest lines last; beside it, the lines before.
CONTROLLER_LOG = "controller.log"
# Batch sizes found by `--auto-batch`.
BATCHES = "batches.json"
# In a saved baseline: the run it was copied from.
ORIGIN = "baseline.json"
LOCK = ".lock"
# Beside the runs of a folder: the index of runs.
CATALOG = ".catalogue.json"

# Below LOGS, TRIAL/REPEAT has the files of one job: PROCESS.log, PROCESS.events.jsonl (or .gz),
# the host of each process, and the record that the logs belong to.
LOGS = "logs"
EVENTS = ".events.jsonl"
HOSTS = "hosts.json"
RECORDED = "recorded.json"
# Below it, try-N has the files of an earlier try of the repeat, from 1.
TRY = "try-"

REPORT = "report"
TABLE = "results.csv"
TEXT = "report.md"
PAGE = "index.html"
FIGURE = "scaling.svg"
PICTURES = (FIGURE, "scaling.png", "threads.svg", "threads.png")
PARQUET = "results.parquet"
DIGESTS = "digests.json"
# Written by `report.predict`; the first one grows.
PREDICTIONS, PREDICTION_TABLE = "predictions.jsonl", "predictions.csv"
# Written by `bench.ab`, which writes no page.
AB_TEXT, AB_TABLE = "ab.md", "ab.csv"
# Folders below the report.
UPSTREAM, EXPORTS, PAPER = "upstream", "exports", "paper"

# Files covered by a digest besides the logs, files needed by comparisons, other files of a run.
COVERED = (RECORDS, ASKED, ENVIRONMENT, SWEEP, BATCHES, CONTROLLER_LOG, f"{CONTROLLER_LOG}.1")
COMPARED = (RECORDS, ENVIRONMENT, ASKED, SWEEP)
_PREDICTED = (f"{REPORT}/{PREDICTIONS}", f"{REPORT}/{PREDICTION_TABLE}")
UNCOVERED = (LOCK, ORIGIN, f"{RECORDS}{TORN}", f"{REPORT}/{DIGESTS}", *_PREDICTED)
# A folder with one of these is a run.
MARKS = (RECORDS, ASKED)


def job_logs(folder: Path, key: str, repeat: object) -> Path:
    """Return the folder with the logs of one repeat of a trial."""
    return folder / LOGS / key / str(repeat)


def try_folders(logs: Path) -> list[Path]:
    """Return the folders with the logs of earlier tries of a repeat, oldest first."""
    found = [path for path in logs.glob(f"{TRY}[1-9]*") if path.is_dir() and not path.is_symlink()]
    names = (path.name.removeprefix(TRY) for path in found)
    numbers = sorted(int(one) for one in names if one.isascii() and one.isdecimal())
    return [logs / f"{TRY}{number}" for number in numbers]


def saved_runs(parent: Path) -> list[Path]:
    """List the folders below `parent` that have records, by name."""
    return sorted(path.parent for path in parent.glob(f"[!.]*/{RECORDS}"))


def is_run(folder: Path) -> bool:
    """Return whether a folder is a run: it holds records or a list of points.

    A folder whose name begins with a dot is a partial run, left by an interrupted unpack.
    """
    if folder.name.startswith("."):
        return False
    with suppress(OSError):  # a folder without read permission
        return any((folder / name).is_file() for name in MARKS)
    return False
