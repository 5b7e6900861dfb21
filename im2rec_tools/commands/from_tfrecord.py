"""Command `from-tfrecord`: TFRecord shards of ImageNet to RecordIO shards."""

from collections.abc import Iterator
from pathlib import Path

from google_crc32c import extend

from im2rec_tools.cli import Command, Option, path
from im2rec_tools.commands.to_tfrecord import OFFSET
from im2rec_tools.errors import DataError
from im2rec_tools.files import atomic_file, check_space, format_size, lock, write_text
from im2rec_tools.formats import tfrecord
from im2rec_tools.formats.recordio import ImageRecord, frame_record
from im2rec_tools.formats.tree import shard_sets
from im2rec_tools.packing import manifest
from im2rec_tools.packing.manifest import Manifest
from im2rec_tools.progress import Plan, Progress, Update

_SAY_EVERY = 500


def _sources(path: Path, name: str) -> list[Path]:
    if path.is_file():
        return [path]
    found = {key: files for key, files in shard_sets(path).items() if files[0].suffix != ".rec"}
    if name not in found:
        names = ", ".join(found) or "none"
        raise DataError(f"{path}: expected TFRecord files {name}-*-of-*, found {names}")
    return found[name]


def _records(source: Path, first: int, offset: int) -> Iterator[ImageRecord]:
    """The images of a file; the n-th of all files has index n."""
    from im2rec_tools.formats.images import check  # noqa: PLC0415 - only when there is something to convert

    for number, data in enumerate(tfrecord.records(source)):
        where = f"{source}: record {number}"
        example = tfrecord.parse(data, where)
        if example.label < offset:
            raise DataError(
                f"{where}: its label is {example.label}, expected {offset} or more; with "
                f"--label-offset 0 labels stay as they are"
            )
        try:
            check(example.image)
        except DataError as error:
            raise DataError(f"{where}: {error}") from error
        label = float(example.label - offset)
        yield ImageRecord(index=first + number, labels=(label,), image=example.image)


def _convert(source: Path, rec: Path, first: int, offset: int) -> Iterator[int]:
    """Writes one shard; yields its number of images so far."""
    index: list[str] = []
    crcs: list[str] = []
    crc, at = 0, 0
    with atomic_file(rec) as file:
        for record in _records(source, first, offset):
            data = frame_record(record)
            file.write(data)
            crc = extend(crc, data)
            crcs.append(f"{extend(0, data):08x}")
            index.append(f"{record.index}\t{at}\n")
            at += len(data)
            yield len(index)
        if not index:
            raise DataError(f"{source}: expected images, found none")
        made = Manifest(
            schema=manifest.SCHEMA,
            list_sha256=manifest.digest(source),
            recipe={"from": source.name, "label_offset": offset},
            versions=manifest.versions(),
            images=len(index),
            bad=0,
            bytes=at,
            crc32c=f"{crc:08x}",
            records_crc32c="".join(crcs),
        )
        write_text(rec.with_suffix(".idx"), "".join(index))
        write_text(rec.with_suffix(".json"), manifest.text(made))


def _plan(path: Path, out: Path, *, set: str, label_offset: int) -> Plan:
    sources = _sources(path, set)
    names = [f"{set}_{n}.rec" if len(sources) > 1 else f"{set}.rec" for n in range(len(sources))]
    targets = [out / name for name in names]

    def work() -> Iterator[Update]:
        with lock(out):
            yield from converting()

    def converting() -> Iterator[Update]:
        check_space(out, sum(source.stat().st_size for source in sources), "name another folder")
        done = 0
        for source, rec in zip(sources, targets, strict=True):
            made = manifest.read(rec) if rec.exists() else None
            known = {"from": source.name, "label_offset": label_offset}
            is_same = made is not None and made.recipe == known
            if made and is_same and made.list_sha256 == manifest.digest(source):
                done += made.images
                continue
            if rec.exists():
                raise DataError(
                    f"{rec}: is there already, not made of {source} with --label-offset "
                    f"{label_offset}; move it away"
                )
            count = 0
            for count in _convert(source, rec, done, label_offset):
                if count % _SAY_EVERY == 0:
                    yield Progress(step="converting", done=done + count)
            done += count
        total = format_size(sum(rec.stat().st_size for rec in targets))
        yield f"{done} images in {len(targets)} shards, {total}: {out}"

    says = (
        f"would write {rec} from {source}" for source, rec in zip(sources, targets, strict=True)
    )
    return Plan(says=says, work=work)


COMMAND = Command(
    name="from-tfrecord",
    help="Converts TFRecords with the fields of ImageNet's to RecordIO shards; checks their CRCs.",
    options=(
        Option(name="path", help="a TFRecord file, or a folder of them", parse=path),
        Option(name="out", help="folder of the shards", parse=path),
        Option(name="set", help="first part of the files' names", default="train"),
        OFFSET,
    ),
    plan=_plan,
)
