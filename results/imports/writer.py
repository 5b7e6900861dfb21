"""Adding imported records to a run folder."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from im2rec_tools.files import copy, create_folder, flush_folder
from results.errors import StoreError, store_errors
from results.imports.record import ImportedRecord
from results.record import Record
from results.run_folder import ENVIRONMENT, SWEEP, job_logs
from results.store import Store, read_json, read_records, set_environment

_NOT_OURS = "imported, not measured by mxscale"


def add_to_run(folder: Path, new: ImportedRecord, description: str = "") -> Record:
    """Adds a record to the run with its logs, as a repeat where the point is there; returns it.

    Raises StoreError for a run that mxscale measured and for logs that are in it already.
    """
    ours = folder.is_dir() and not all(one.source for one in read_records(folder))
    if (folder / SWEEP).exists() or ours:
        raise StoreError(
            f"{folder}: holds what mxscale measured; import into a run of its own (--run)"
        )
    store = Store(folder)
    try:
        known = read_records(folder)
        record = _numbered(folder, new.record, known)
        _copy(job_logs(folder, record.identity.key, record.identity.repeat), new.paths)
        # The record last: until it is there, the same command does all of this again.
        _remember(folder, [*known, record], description)
        store.append(record)
    finally:
        store.close()
    return record


def _remember(folder: Path, records: Sequence[Record], description: str) -> None:
    sources = dict.fromkeys(one.source.removeprefix("imported from ") for one in records)
    environment: dict[str, Any] = read_json(folder, ENVIRONMENT, {})
    facts = {
        # Not "date": that is of measuring.
        "imported_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "imported": ", ".join(sources),
    }
    if description or "description" not in environment:
        facts["description"] = f"{description} ({_NOT_OURS})" if description else _NOT_OURS
    set_environment(folder, **facts)


def _numbered(folder: Path, record: Record, known: Sequence[Record]) -> Record:
    """The record as the next repeat of its point."""
    for one in known:
        if one.identity.code_hash == record.identity.code_hash:
            raise StoreError(
                f"{folder}: has this log already, as {one.identity.name} (repeat "
                f"{one.identity.repeat + 1}); nothing was added"
            )
    repeats = sum(one.identity.key == record.identity.key for one in known)
    return replace(record, identity=replace(record.identity, repeat=repeats))


def _copy(folder: Path, paths: Sequence[Path]) -> None:
    """The logs as they are, in an empty folder; those of one name get a number."""
    names = [path.name for path in paths]
    with store_errors(folder, "written"):
        create_folder(folder)
        for number, path in enumerate(paths):
            alike = names.count(path.name) > 1
            copy(path, folder / (f"{number}-{path.name}" if alike else path.name))
        flush_folder(folder)
