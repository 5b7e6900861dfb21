"""Conversion of shards to files of another format, and back; one file per shard."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from im2rec_tools.errors import DataError, error_line
from im2rec_tools.files import atomic_file, check_space, digest, format_size, lock, write_text
from im2rec_tools.formats.recordio import ImageRecord, count_records, frame, frame_record, records
from im2rec_tools.packing import manifest
from im2rec_tools.progress import Plan, Progress, Update

_UPDATE_EVERY = 500


@dataclass(frozen=True, kw_only=True)
class Export:
    """Shards to convert, and the files to make.

    out      folder of the files
    targets  the file of each shard
    kind     name of the files in texts: 'TFRecord files'
    settings file that keeps sources and options: other files are not mixed with these
    options  settings in JSON form
    encode   returns the bytes of a record, from shard, payload and place for errors
    end      bytes at the end of each file
    """

    out: Path
    shards: Sequence[Path]
    targets: Sequence[Path]
    kind: str
    settings: str
    options: Sequence[Any]
    encode: Callable[[Path, bytes, str], bytes]
    end: bytes = b""


def _payloads(rec: Path) -> Iterator[tuple[str, bytes]]:
    """Yield place and payload of each record; raise DataError unless it is as packed."""
    made = manifest.read(rec)
    for number, (at, payload) in enumerate(records(rec)):
        where = f"{rec}: record {number} at byte {at}"
        if made and not manifest.is_packed(made, number, frame(payload)):
            problem, fix = "differs from the packed record", "Pack the shard again"
            raise DataError(error_line(where, problem=problem, fix=fix))
        yield where, payload


def _check_settings(job: Export) -> None:
    """Save the sources of the files; raise DataError for files of other sources."""
    sources: list[list[Any]] = []
    for rec in job.shards:
        made = manifest.read(rec)
        sources.append([rec.name, made.crc32c if made else rec.stat().st_mtime_ns])
    text = json.dumps({"sources": sources, "options": job.options}, indent=1) + "\n"
    path = job.out / job.settings
    there = [target for target in job.targets if target.exists()]
    if there and not (path.is_file() and path.read_text(encoding="utf-8") == text):
        problem = "made from other shards or with other options"
        raise DataError(error_line(there[0], problem=problem, fix="Move it away"))
    write_text(path, text)


def _exported(job: Export) -> Iterator[Update]:
    pairs = list(zip(job.shards, job.targets, strict=True))
    done = 0
    with lock(job.out):
        _check_settings(job)
        left = [pair for pair in pairs if not pair[1].exists()]
        total = sum(count_records(rec) for rec, _ in left)
        check_space(job.out, sum(rec.stat().st_size for rec, _ in left), "Choose another OUT")
        for rec, target in left:
            with atomic_file(target) as file:
                for where, payload in _payloads(rec):
                    file.write(job.encode(rec, payload, where))
                    done += 1
                    if done % _UPDATE_EVERY == 0:
                        yield Progress(step="converting", done=done, total=total)
                file.write(job.end)
    first, *others = job.targets
    yield (
        f"{done} images in {len(left)} {job.kind}, {len(pairs) - len(left)} existed: {first}"
        f"{f' ... {others[-1].name}' if others else ''}, "
        f"{format_size(sum(target.stat().st_size for target in job.targets))}"
    )


def export_plan(job: Export) -> Plan:
    """Plan to write one file per shard; existing files of the same settings are kept."""
    pairs = zip(job.shards, job.targets, strict=True)
    says = (f"would write {target} from {rec}" for rec, target in pairs)
    return Plan(says=says, work=lambda: _exported(job))


@dataclass(frozen=True, kw_only=True)
class Import:
    """Files to convert to shards.

    out      folder of the shards
    name     set of the shards: NAME.rec, or NAME_0.rec ...
    options  settings, in the manifest of each shard
    given    the command's options that set them, for errors
    images   yields the images of a file; the first has this index
    """

    sources: Sequence[Path]
    out: Path
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    given: str = ""
    images: Callable[[Path, int], Iterator[ImageRecord]]

    @property
    def targets(self) -> list[Path]:
        """The shard of each file."""
        count = len(self.sources)
        names = [f"{self.name}_{n}.rec" if count > 1 else f"{self.name}.rec" for n in range(count)]
        return [self.out / name for name in names]


def _written(job: Import, source: Path, rec: Path, first: int) -> Iterator[int]:
    """Write one shard; yield its number of images so far."""
    index: list[str] = []
    written = manifest.WrittenBytes()
    with atomic_file(rec) as file:
        for record in job.images(source, first):
            index.append(f"{record.index}\t{written.size}\n")
            data = frame_record(record)
            file.write(data)
            written.add(data)
            yield len(index)
        if not index:
            fix = "Copy the file again"
            raise DataError(error_line(source, expected="images", got="none", fix=fix))
        write_text(rec.with_suffix(".idx"), "".join(index))
        manifest.write(rec, source, {"from": source.name, **job.options}, written)


def _kept(job: Import, source: Path, rec: Path) -> int:
    """Return the images of a shard that exists; 0 if it is missing.

    Raises DataError for a shard of another file or other options.
    """
    if not rec.exists():
        return 0
    made = manifest.read(rec)
    same = made is not None and made.recipe == {"from": source.name, **job.options}
    if made and same and made.list_sha256 == digest(source):
        return made.images
    problem = f"already exists, and not from {source}{job.given}"
    raise DataError(error_line(rec, problem=problem, fix="Move it away"))


def _imported(job: Import) -> Iterator[Update]:
    done = 0
    with lock(job.out):
        check_space(job.out, sum(one.stat().st_size for one in job.sources), "Choose another OUT")
        for source, rec in zip(job.sources, job.targets, strict=True):
            count = _kept(job, source, rec)
            if not count:
                for count in _written(job, source, rec, done):
                    if count % _UPDATE_EVERY == 0:
                        yield Progress(step="converting", done=done + count)
            done += count
        total = format_size(sum(rec.stat().st_size for rec in job.targets))
    yield f"{done} images in {len(job.targets)} shards, {total}: {job.out}"


def import_plan(job: Import) -> Plan:
    """Plan to write one shard per file; existing shards of the same file are kept."""
    pairs = zip(job.sources, job.targets, strict=True)
    says = (f"would write {rec} from {source}" for source, rec in pairs)
    return Plan(says=says, work=lambda: _imported(job))
