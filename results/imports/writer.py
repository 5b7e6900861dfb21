"""Adding imported records to a run folder."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.errors import error_line
from im2rec_tools.files import copy, create_folder, flush_folder
from results.errors import StoreError, store_errors
from results.imports.record import ImportedRecord
from results.record import Record
from results.run_folder import ENVIRONMENT, SWEEP, job_logs
from results.store import Store, read_json, read_records, set_environment

_IMPORTED = "imported, not measured by mxscale"


def add_to_run(folder: Path, new: ImportedRecord, description: str = "") -> Record:
    """Add a record and its logs to the run, as a repeat if the point exists.

    Raises StoreError if mxscale measured the run, or if the run already has these logs.
    """
    measured = folder.is_dir() and not all(one.source for one in read_records(folder))
    if (folder / SWEEP).exists() or measured:
        problem = "a run measured by mxscale"
        fix = "Import into a separate run with --run NAME"
        raise StoreError(error_line(folder, problem=problem, fix=fix))
    store = Store(folder)
    try:
        known = read_records(folder)
        record = _numbered(folder, new.record, known)
        _copy(job_logs(folder, record.identity.key, record.identity.repeat), new.paths)
        # The record comes last: if it is missing, the same command redoes everything.
        _remember(folder, [*known, record], description)
        store.append(record)
    finally:
        store.close()
    return record


def _remember(folder: Path, records: Sequence[Record], description: str) -> None:
    sources = dict.fromkeys(one.source.removeprefix("imported from ") for one in records)
    environment: dict[str, Any] = read_json(folder, ENVIRONMENT, {})
    facts = {
        # Not "date": that is the time of the measurement.
        "imported_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "imported": ", ".join(sources),
    }
    if description or "description" not in environment:
        facts["description"] = f"{description} ({_IMPORTED})" if description else _IMPORTED

    set_environment(folder, **facts)


def _numbered(folder: Path, record: Record, known: Sequence[Record]) -> Record:
    """Return the record as the next repeat of its point."""
    for one in known:
        if one.identity.code_hash == record.identity.code_hash:
            place = f"{one.identity.name} (repeat {one.identity.repeat + 1})"
            problem = f"already has this log, as {place}; nothing was added"
            raise StoreError(
                error_line(
                    folder, problem=problem, fix="Import another log, or choose another --run NAME"
                )
            )
    repeats = sum(one.identity.key == record.identity.key for one in known)
    return replace(record, identity=replace(record.identity, repeat=repeats))


def _copy(folder: Path, paths: Sequence[Path]) -> None:
    """Copy the logs unchanged to an empty folder; number those with the same name."""
    names = [path.name for path in paths]
    with store_errors(folder, "written"):
        create_folder(folder)
        for number, path in enumerate(paths):
            alike = names.count(path.name) > 1
            copy(path, folder / (f"{number}-{path.name}" if alike else path.name))
        flush_folder(folder)
