"""Names of the files of a run, each spelled here alone; imports nothing heavy."""

from contextlib import suppress
from pathlib import Path

# One line of JSON per record; beside it, what was cut off of a last line.
RECORDS = "records.jsonl"
TORN = ".torn"
# The identities that the last sweep asked for, the sweep as it was written, and the environment of
# the last sweep that measured something.
ASKED = "asked.json"
SWEEP = "sweep.toml"
ENVIRONMENT = "environment.json"
# What `--auto-batch` found.
BATCHES = "batches.json"
# Of a saved baseline: the run that it is a copy of.
ORIGIN = "baseline.json"
LOCK = ".lock"
# Beside the runs of a folder: what is known of each.
CATALOG = ".catalogue.json"

# Below LOGS, TRIAL/REPEAT has the files of one job: PROCESS.log, PROCESS.events.jsonl (or .gz),
# which host each process was on, and which record the logs are of.
LOGS = "logs"
EVENTS = ".events.jsonl"
HOSTS = "hosts.json"
RECORDED = "recorded.json"

REPORT = "report"
TABLE = "results.csv"
TEXT = "report.md"
PAGE = "index.html"
FIGURE = "scaling.svg"
PICTURES = (FIGURE, "scaling.png", "threads.svg", "threads.png")
PARQUET = "results.parquet"
DIGESTS = "digests.json"
# Of `bench.ab`, which has no page.
AB_TEXT, AB_TABLE = "ab.md", "ab.csv"
# Folders below the report.
UPSTREAM, EXPORTS = "upstream", "exports"

# What a digest is over besides the logs, what comparisons need, what else may be in a run.
COVERED = (RECORDS, ASKED, ENVIRONMENT, SWEEP, BATCHES)
COMPARED = (RECORDS, ENVIRONMENT, ASKED, SWEEP)
UNCOVERED = (LOCK, ORIGIN, f"{RECORDS}{TORN}", f"{REPORT}/{DIGESTS}")
# A folder with one of these is a run.
MARKS = (RECORDS, ASKED)


def job_logs(folder: Path, key: str, repeat: object) -> Path:
    """The folder with the logs of one repeat of a trial."""
    return folder / LOGS / key / str(repeat)


def saved_runs(parent: Path) -> list[Path]:
    """The folders below `parent` that have records, by name."""
    return sorted(path.parent for path in parent.glob(f"[!.]*/{RECORDS}"))


def is_run(folder: Path) -> bool:
    """Whether a folder is a run's: it holds records, or what was asked for.

    A folder whose name begins with a dot is part of a run: unpacking it was ended.
    """
    if folder.name.startswith("."):
        return False
    with suppress(OSError):  # one that may not be looked into
        return any((folder / name).is_file() for name in MARKS)
    return False
