"""Commands `to-tfrecord` and `from-tfrecord`: convert ImageNet shards."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from im2rec_tools.cli import Command, Option, integer
from im2rec_tools.commands.arguments import LABELS, OUT, SET, SHARDS
from im2rec_tools.errors import DataError, error_line
from im2rec_tools.files import atomic_file, check_space, digest, format_size, lock, write_text
from im2rec_tools.formats import lists, tfrecord
from im2rec_tools.formats.recordio import (
    ImageRecord,
    count_records,
    frame,
    frame_record,
    records,
    unpack,
)
from im2rec_tools.formats.tree import record_files, shard_sets
from im2rec_tools.packing import manifest
from im2rec_tools.progress import Plan, Progress, Update

_UPDATE_EVERY = 500
# End of the names of TensorFlow Datasets: imagenet2012-train.tfrecord-00000-of-01024.
_DATASETS = ".tfrecord"
_OFFSET = Option(
    "label-offset",
    "N",
    "Difference between TFRecord and RecordIO labels; 1 keeps TFRecord label 0 for the background",
    default="1",
    parse=integer(0, 1),
)


def _example(payload: bytes, where: str, names: dict[int, str], offset: int) -> tfrecord.Example:
    import simplejpeg  # noqa: PLC0415 - needed only to convert

    from im2rec_tools.formats.images import check  # noqa: PLC0415

    record = unpack(payload, where)
    if len(record.labels) != 1 or not record.labels[0].is_integer():
        raise DataError(error_line(where, expected="one whole label", got=record.labels))
    label = int(record.labels[0])
    if max(abs(label), abs(label + offset)) > tfrecord.LARGEST_LABEL:
        raise DataError(
            error_line(
                where,
                expected=f"a label within ±2^24 after --label-offset {offset}",
                got=label,
                problem="from-tfrecord could not read it back",
            )
        )
    try:
        height, width = check(record.image)
    except DataError as error:
        raise DataError(error_line(where, problem=str(error))) from error
    jpeg = record.image.startswith(b"\xff\xd8")
    grey = jpeg and simplejpeg.decode_jpeg_header(record.image)[2] == "Gray"
    return tfrecord.Example(
        image=record.image,
        label=label + offset,
        synset=names.get(label, ""),
        filename=str(record.index),
        height=height,
        width=width,
        channels=1 if grey else 3,
    )


def _export(rec: Path, target: Path, names: dict[int, str], offset: int) -> Iterator[None]:
    made = manifest.read(rec)
    with atomic_file(target) as file:
        for number, (at, payload) in enumerate(records(rec)):
            where = f"{rec}: record {number} at byte {at}"
            if made and not manifest.is_packed(made, number, frame(payload)):
                raise DataError(
                    error_line(
                        where, problem="differs from the packed record", fix="Pack the shard again"
                    )
                )
            example = _example(payload, where, names, offset)
            file.write(tfrecord.frame(tfrecord.emit(example)))
            yield


def _check_settings(
    path: Path, shards: list[Path], targets: list[Path], options: list[Any]
) -> None:
    """Save the sources of the files; raise DataError for files of other sources."""
    sources: list[list[Any]] = []
    for rec in shards:
        made = manifest.read(rec)
        sources.append([rec.name, made.crc32c if made else rec.stat().st_mtime_ns])
    text = json.dumps({"sources": sources, "options": options}, indent=1) + "\n"
    there = [target for target in targets if target.exists()]
    if there and not (path.is_file() and path.read_text(encoding="utf-8") == text):
        raise DataError(
            error_line(
                there[0], problem="made from other shards or with other options", fix="Move it away"
            )
        )
    write_text(path, text)


def _plan_to(path: Path, out: Path, *, set: str, labels: Path | None, label_offset: int) -> Plan:
    shards = record_files(path)
    found = lists.read_labels(labels) if labels else {}
    names = {label: name for name, label in found.items()}
    targets = [out / f"{set}-{n:05}-of-{len(shards):05}" for n in range(len(shards))]

    def work() -> Iterator[Update]:
        with lock(out):
            _check_settings(out / f"to_tfrecord_{set}.json", shards, targets, [names, label_offset])
            left = [pair for pair in zip(shards, targets, strict=True) if not pair[1].exists()]
            total = sum(count_records(rec) for rec, _ in left)
            check_space(out, sum(rec.stat().st_size for rec, _ in left), "Choose another OUT")
            done = 0
            for rec, target in left:
                for _ in _export(rec, target, names, label_offset):
                    done += 1
                    if done % _UPDATE_EVERY == 0:
                        yield Progress(step="converting", done=done, total=total)
        yield (
            f"{done} images in {len(left)} TFRecord files, {len(targets) - len(left)} existed: "
            f"{out}/{set}-*-of-{len(shards):05}, "
            f"{format_size(sum(target.stat().st_size for target in targets))}"
        )

    says = (f"would write {target} from {rec}" for rec, target in zip(shards, targets, strict=True))
    return Plan(says=says, work=work)


TO_TFRECORD = Command(
    name="to-tfrecord",
    help="Convert RecordIO shards to ImageNet TFRecords.",
    details="The TFRecord files have the fields of the usual ImageNet conversion.",
    options=(
        SHARDS,
        OUT,
        replace(SET, text="First part of the file names: train or validation"),
        LABELS,
        _OFFSET,
    ),
    plan=_plan_to,
)


def _sources(path: Path, name: str) -> list[Path]:
    if path.is_file():
        return [path]
    found = {key: files for key, files in shard_sets(path).items() if files[0].suffix != ".rec"}
    if name not in found:
        names = ", ".join(found) or "none"
        if any(key.endswith(_DATASETS) for key in found):
            raise DataError(
                error_line(
                    path,
                    expected=f"ImageNet's TFRecord files {name}-*-of-*",
                    got=names,
                    problem="files of TensorFlow Datasets have other fields",
                    fix="Save the images in class folders, and pack them with data.prepare DIR",
                )
            )
        raise DataError(error_line(path, expected=f"TFRecord files {name}-*-of-*", got=f"{names}"))
    return found[name]


def _records(source: Path, first: int, offset: int) -> Iterator[ImageRecord]:
    """Yield the images of a file; `first` is the index of its first image."""
    from im2rec_tools.formats.images import check  # noqa: PLC0415 - needed only to convert

    for number, data in enumerate(tfrecord.records(source)):
        where = f"{source}: record {number}"
        example = tfrecord.parse(data, where)
        if example.label < offset:
            raise DataError(
                error_line(
                    where,
                    expected=f"a label of {offset} or more",
                    got=example.label,
                    fix="Keep labels unchanged with --label-offset 0",
                )
            )
        try:
            check(example.image)
        except DataError as error:
            raise DataError(error_line(where, problem=str(error))) from error
        label = float(example.label - offset)
        yield ImageRecord(index=first + number, labels=(label,), image=example.image)


def _import(source: Path, rec: Path, first: int, offset: int) -> Iterator[int]:
    """Write one shard; yield its number of images so far."""
    index: list[str] = []
    written = manifest.WrittenBytes()
    with atomic_file(rec) as file:
        for record in _records(source, first, offset):
            index.append(f"{record.index}\t{written.size}\n")
            data = frame_record(record)
            file.write(data)
            written.add(data)
            yield len(index)
        if not index:
            raise DataError(
                error_line(source, expected="images", got="none", fix="Copy the file again")
            )
        write_text(rec.with_suffix(".idx"), "".join(index))
        manifest.write(rec, source, {"from": source.name, "label_offset": offset}, written)


def _plan_from(path: Path, out: Path, *, set: str, label_offset: int) -> Plan:
    sources = _sources(path, set)
    names = [f"{set}_{n}.rec" if len(sources) > 1 else f"{set}.rec" for n in range(len(sources))]
    targets = [out / name for name in names]

    def work() -> Iterator[Update]:
        with lock(out):
            yield from converting()

    def converting() -> Iterator[Update]:
        check_space(out, sum(source.stat().st_size for source in sources), "Choose another OUT")
        done = 0
        for source, rec in zip(sources, targets, strict=True):
            made = manifest.read(rec) if rec.exists() else None
            known = {"from": source.name, "label_offset": label_offset}
            is_same = made is not None and made.recipe == known
            if made and is_same and made.list_sha256 == digest(source):
                done += made.images
                continue
            if rec.exists():
                raise DataError(
                    error_line(
                        rec,
                        problem=(
                            f"already exists, and not from {source} with --label-offset "
                            f"{label_offset}"
                        ),
                        fix="Move it away",
                    )
                )
            count = 0
            for count in _import(source, rec, done, label_offset):
                if count % _UPDATE_EVERY == 0:
                    yield Progress(step="converting", done=done + count)
            done += count
        total = format_size(sum(rec.stat().st_size for rec in targets))
        yield f"{done} images in {len(targets)} shards, {total}: {out}"

    says = (
        f"would write {rec} from {source}" for source, rec in zip(sources, targets, strict=True)
    )
    return Plan(says=says, work=work)


FROM_TFRECORD = Command(
    name="from-tfrecord",
    help="Convert ImageNet TFRecords to RecordIO shards.",
    details="Checks the CRC of every record.",
    options=(
        replace(SHARDS, text="A TFRecord file, or a folder of them"),
        OUT,
        SET,
        _OFFSET,
    ),
    plan=_plan_from,
)
