"""Reads a shard back whole: framing, index, count, checksum, labels, and every image decoded."""

import hashlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from im2rec_tools.codec import check
from im2rec_tools.errors import DataError
from im2rec_tools.pack import manifest
from im2rec_tools.recordio import read_index, records, unpack


@dataclass(frozen=True, kw_only=True)
class Contents:
    """What a shard holds: images of each label."""

    images: int
    labels: dict[float, int]


def verify(rec: Path) -> Contents:
    """Checks one shard against itself, its index and its manifest.

    Raises DataError naming the file and the record that is wrong.
    """
    made = manifest(rec)
    if made is None:
        raise DataError(f"{rec.with_suffix('.json')}: no such manifest; pack {rec.name} again")
    index = read_index(rec.with_suffix(".idx"))
    labels: Counter[float] = Counter()
    found: list[tuple[int, int]] = []
    for offset, payload in records(rec):
        where = f"{rec}: record {len(found)} at byte {offset}"
        record = unpack(payload, where)
        try:
            check(record.image)
        except DataError as error:
            raise DataError(f"{where}: {error}") from error
        found.append((record.index, offset))
        labels[record.label] += 1
    if found != index:
        raise DataError(f"{rec}: its index lists {len(index)} records, the file has {len(found)}")
    if len(found) != made.images:
        raise DataError(f"{rec}: expected {made.images} images, found {len(found)}")
    with rec.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != made.sha256:
            raise DataError(f"{rec}: differs from what was packed (checksum); pack it again")
    return Contents(images=len(found), labels=dict(labels))
