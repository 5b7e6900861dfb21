"""Verification of a shard: reads every record and compares it with the manifest."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google_crc32c import extend

from im2rec_tools.errors import DataError, error_line
from im2rec_tools.formats.boxes import class_labels
from im2rec_tools.formats.recordio import frame, read_index, records, unpack
from im2rec_tools.packing import manifest


@dataclass(frozen=True, kw_only=True)
class VerifyTask:
    """Task: verify this shard."""

    number: int
    rec: Path

    def where(self, at: int) -> str:
        """Return the file and the record number."""
        return f"{self.rec}, record {at}"


@dataclass(frozen=True, kw_only=True)
class ShardContents:
    """Contents of a shard: images per label, and per (height, width).

    missing: index or manifest that does not exist, so was not compared.
    """

    path: Path
    images: int
    labels: dict[tuple[float, ...], int]
    sizes: dict[tuple[int, int], int]
    missing: tuple[str, ...] = ()


def verify(rec: Path, at: Callable[[int], None] = lambda _: None) -> ShardContents:
    """Verify one shard: frames, index, count, labels, checksum; decode every image.

    at: called with the number of each record before its check. A missing index or manifest is
    not compared. Raises DataError with the file and the record.
    """
    from im2rec_tools.formats.images import check  # noqa: PLC0415 - only the processes need the codecs

    made = manifest.read(rec)
    beside = rec.with_suffix(".idx")
    index = read_index(beside) if beside.is_file() else None
    labels: Counter[tuple[float, ...]] = Counter()
    sizes: Counter[tuple[int, int]] = Counter()
    crc, number = 0, -1
    for number, (offset, payload) in enumerate(records(rec)):
        at(number)
        where = f"{rec}: record {number} at byte {offset}"
        record = unpack(payload, where)
        listed = (index or [])[number : number + 1]
        if index is not None and listed != [(record.index, offset)]:
            found = f"key {listed[0][0]} at {listed[0][1]}" if listed else "no such record"
            raise DataError(
                error_line(
                    where,
                    problem=f"has key {record.index}, but the index lists {found}",
                    fix="Pack it again",
                )
            )
        if not all(label == label for label in record.labels):  # noqa: PLR0124 - NaN
            raise DataError(
                error_line(
                    where, expected="a label that is a number", got="NaN", fix="Pack it again"
                )
            )
        try:
            sizes[check(record.image)] += 1
        except DataError as error:
            place = f"{where} (key {record.index})"
            raise DataError(error_line(place, problem=str(error), fix="Pack it again")) from error
        framed = frame(payload)
        if made and not manifest.is_packed(made, number, framed):
            raise DataError(
                error_line(
                    f"{where} (key {record.index})",
                    problem="differs from the packed record",
                    fix="Pack it again",
                )
            )
        crc = extend(crc, framed)
        labels[class_labels(record.labels)] += 1
    missing = check_counts(rec, number + 1, made)
    if made and f"{crc:08x}" != made.crc32c:
        raise DataError(
            error_line(rec, problem="differs from the packed file (checksum)", fix="Pack it again")
        )
    return ShardContents(
        path=rec, images=number + 1, labels=dict(labels), sizes=dict(sizes), missing=missing
    )


def check_counts(rec: Path, records: int, made: manifest.Manifest | None) -> tuple[str, ...]:
    """Compare a shard's count with index and manifest; return those missing.

    Raises DataError if a count differs.
    """
    if not records:
        raise DataError(error_line(rec, problem="the file is empty", fix="Pack it again"))
    beside = rec.with_suffix(".idx")
    index = len(read_index(beside)) if beside.is_file() else None
    counts = [("index", index), ("manifest", made and made.images)]
    for name, count in counts:
        if count is not None and count != records:
            raise DataError(
                error_line(
                    rec,
                    expected=f"{count} records, as in the {name}",
                    got=f"{records}",
                    fix="Pack it again",
                )
            )
    return tuple(name for name, count in counts if count is None)


@dataclass(frozen=True, kw_only=True)
class VerifyResult:
    """Answer: the contents of a shard, or its problem."""

    number: int
    contents: ShardContents | None = None
    problem: str = ""


def server(position: Any) -> Callable[[VerifyTask], VerifyResult]:
    """Return the function that verifies the shard of each task."""
    import im2rec_tools.formats.images  # noqa: PLC0415, F401 - fail now if it cannot be loaded

    def answer(check: VerifyTask) -> VerifyResult:
        def at(number: int) -> None:
            position[:] = (check.number, number)

        try:
            return VerifyResult(number=check.number, contents=verify(check.rec, at))
        except (DataError, OSError) as error:
            return VerifyResult(number=check.number, problem=str(error))

    return answer
