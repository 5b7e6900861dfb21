"""Commands `to-webdataset` and `from-webdataset`: convert shards."""

import re
from collections.abc import Iterator
from pathlib import Path

from im2rec_tools.errors import DataError, error_line
from im2rec_tools.formats import webdataset
from im2rec_tools.formats.recordio import ImageRecord, unpack
from im2rec_tools.formats.tree import numbers_last, record_files
from im2rec_tools.packing.conversion import Export, Import, export_plan, import_plan
from im2rec_tools.progress import Plan


def _encode(_: Path, payload: bytes, where: str) -> bytes:
    return webdataset.emit(unpack(payload, where), where)


def plan_to_webdataset(path: Path, out: Path, *, set: str) -> Plan:
    """Plan to convert RecordIO shards to tar shards."""
    shards = record_files(path)
    return export_plan(
        Export(
            out=out,
            shards=shards,
            targets=[out / f"{set}-{number:06}.tar" for number in range(len(shards))],
            kind="tar files",
            settings=f"to_webdataset_{set}.json",
            options=[],
            encode=_encode,
            end=webdataset.END,
        )
    )


def _sources(path: Path, name: str) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        fix = "Give a tar file, or a folder of them"
        raise DataError(error_line(path, problem="no such file or folder", fix=fix))
    pattern = re.compile(re.escape(name) + r"[-_][0-9]+(-of-[0-9]+)?\.tar")
    found = [one for one in sorted(path.iterdir(), key=numbers_last) if pattern.fullmatch(one.name)]
    if not found:
        fix = "Name the files with --set, or give one file"
        raise DataError(error_line(path, expected=f"files {name}-NUMBER.tar", got="none", fix=fix))
    return found


def _images(source: Path, first: int) -> Iterator[ImageRecord]:
    from im2rec_tools.formats.images import check  # noqa: PLC0415 - needed only to convert

    for where, record in webdataset.images(source, first):
        try:
            check(record.image)
        except DataError as error:
            raise DataError(error_line(where, problem=str(error))) from error
        yield record


def plan_from_webdataset(path: Path, out: Path, *, set: str) -> Plan:
    """Plan to convert tar shards to RecordIO shards."""
    job = Import(sources=_sources(path, set), out=out, name=set, images=_images)
    return import_plan(job)
