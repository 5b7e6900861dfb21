"""Reads a shard back whole and compares it with what was packed."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google_crc32c import extend

from im2rec_tools.errors import DataError
from im2rec_tools.formats.recordio import frame, read_index, records, unpack
from im2rec_tools.packing import manifest


@dataclass(frozen=True, kw_only=True)
class VerifyTask:
    """Check this shard."""

    number: int
    rec: Path

    def where(self, at: int) -> str:
        """The record it is at."""
        return f"{self.rec}, record {at}"


@dataclass(frozen=True, kw_only=True)
class ShardContents:
    """What a shard holds: images of each label or labels; what was missing to compare it with."""

    path: Path
    images: int
    labels: dict[tuple[float, ...], int]
    missing: tuple[str, ...] = ()


def verify(rec: Path, at: Callable[[int], None] = lambda _: None) -> ShardContents:
    """Checks one shard: framing, index, count, every image decoded, labels, checksum.

    Calls `at` with the number of each record before it is looked at. What is not there, index or
    manifest, is not compared.
    Raises DataError naming the file and the record that is wrong.
    """
    from im2rec_tools.formats.images import check  # noqa: PLC0415 - the codecs are for the processes only

    made = manifest.read(rec)
    beside = rec.with_suffix(".idx")
    index = read_index(beside) if beside.is_file() else None
    labels: Counter[tuple[float, ...]] = Counter()
    crc, number = 0, -1
    for number, (offset, payload) in enumerate(records(rec)):
        at(number)
        where = f"{rec}: record {number} at byte {offset}"
        record = unpack(payload, where)
        listed = (index or [])[number : number + 1]
        if index is not None and listed != [(record.index, offset)]:
            found = f"key {listed[0][0]} at {listed[0][1]}" if listed else "nothing more"
            raise DataError(f"{where}: has key {record.index}, its index lists {found}")
        if not all(label == label for label in record.labels):  # noqa: PLR0124 - NaN
            raise DataError(f"{where}: its label is not a number")
        try:
            check(record.image)
        except DataError as error:
            raise DataError(f"{where} (key {record.index}): {error}") from error
        framed = frame(payload)
        if made and not manifest.is_packed(made, number, framed):
            raise DataError(f"{where} (key {record.index}): differs from what was packed")
        crc = extend(crc, framed)
        labels[record.labels] += 1
    missing = check_counts(rec, number + 1, made)
    if made and f"{crc:08x}" != made.crc32c:
        raise DataError(f"{rec}: differs from what was packed (checksum); pack it again")
    return ShardContents(path=rec, images=number + 1, labels=dict(labels), missing=missing)


def check_counts(rec: Path, records: int, made: manifest.Manifest | None) -> tuple[str, ...]:
    """DataError unless index and manifest of a shard say this count; which of them are missing."""
    if not records:
        raise DataError(f"{rec}: the file is empty; pack it again")
    beside = rec.with_suffix(".idx")
    index = len(read_index(beside)) if beside.is_file() else None
    counts = [("index", index), ("manifest", made and made.images)]
    for name, count in counts:
        if count is not None and count != records:
            raise DataError(f"{rec}: holds {records} records, its {name} says {count}")
    return tuple(name for name, count in counts if count is None)


@dataclass(frozen=True, kw_only=True)
class VerifyResult:
    """What a shard holds, or what is wrong with it."""

    number: int
    contents: ShardContents | None = None
    problem: str = ""


def server(position: Any) -> Callable[[VerifyTask], VerifyResult]:
    """What a process that reads back does with each message."""
    import im2rec_tools.formats.images  # noqa: PLC0415, F401 - loaded now, or it cannot be

    def answer(check: VerifyTask) -> VerifyResult:
        def at(number: int) -> None:
            position[:] = (check.number, number)

        try:
            return VerifyResult(number=check.number, contents=verify(check.rec, at))
        except (DataError, OSError) as error:
            return VerifyResult(number=check.number, problem=str(error))

    return answer
