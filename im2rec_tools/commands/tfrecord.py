"""Commands `to-tfrecord` and `from-tfrecord`: convert ImageNet shards."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from im2rec_tools.errors import DataError, error_line
from im2rec_tools.files import digest
from im2rec_tools.formats import tfrecord
from im2rec_tools.formats.annotations import AnnotationFolder, count_lines
from im2rec_tools.formats.boxes import Box, boxes_of, detection_labels
from im2rec_tools.formats.lists import read, read_labels
from im2rec_tools.formats.recordio import ImageRecord, unpack
from im2rec_tools.formats.tree import record_files, shard_sets
from im2rec_tools.packing import manifest
from im2rec_tools.packing.conversion import Export, Import, export_plan, import_plan
from im2rec_tools.progress import Plan, Update

# End of the names of TensorFlow Datasets: imagenet2012-train.tfrecord-00000-of-01024.
_DATASETS = ".tfrecord"


class ListedBoxes:
    """Boxes of packed images: a shard's list has the name of each image."""

    def __init__(self, annotations: AnnotationFolder, folder: Path | None) -> None:
        self.annotations, self._folder = annotations, folder
        self._names: tuple[Path, dict[int, str]] = (Path(), {})

    def boxes(self, rec: Path, index: int, size: tuple[int, int]) -> tuple[Box, ...]:
        """Return the boxes of the image with this key and size (width, height)."""
        if self._names[0] != rec:
            self._names = (rec, self._read(rec))
        if index not in self._names[1]:
            raise DataError(
                error_line(
                    self._list(rec),
                    expected=f"the image with key {index} of {rec}",
                    got="none",
                    fix="Name the folder of the lists with --lists DIR",
                )
            )
        return self.annotations.boxes(self._names[1][index], size)

    def _list(self, rec: Path) -> Path:
        beside = rec.with_suffix(".lst")
        prepared = rec.parent.parent / "lists" / beside.name
        if self._folder:
            return self._folder / beside.name
        return prepared if prepared.exists() and not beside.exists() else beside

    def _read(self, rec: Path) -> dict[int, str]:
        lst, made = self._list(rec), manifest.read(rec)
        names = {entry.index: entry.path for entry in read(lst)}
        if made and made.list_sha256 != digest(lst):
            raise DataError(
                error_line(
                    lst,
                    expected=f"the list that {rec} was packed from",
                    got="another",
                    fix="Name the folder of the lists with --lists DIR",
                )
            )
        return names


@dataclass(frozen=True, kw_only=True)
class _Encoder:
    """Settings of `to-tfrecord`: class of each label, difference of labels, boxes."""

    names: Mapping[int, str]
    offset: int
    listed: ListedBoxes | None

    def encode(self, rec: Path, payload: bytes, where: str) -> bytes:
        """Return a framed record."""
        return tfrecord.frame(tfrecord.emit(self._example(rec, unpack(payload, where), where)))

    def _example(self, rec: Path, record: ImageRecord, where: str) -> tfrecord.Example:
        import simplejpeg  # noqa: PLC0415 - needed only to convert

        boxes = boxes_of(record.labels)
        label = boxes[0].label if boxes else _class(record.labels, where)
        height, width = _checked_size(record.image, where)
        jpeg = record.image.startswith(b"\xff\xd8")
        grey = jpeg and simplejpeg.decode_jpeg_header(record.image)[2] == "Gray"
        if self.listed and not boxes:
            boxes = self.listed.boxes(rec, record.index, (width, height))
        for one in (label, *(box.label for box in boxes)):
            self._check(one, where)
        return tfrecord.Example(
            image=record.image,
            label=label + self.offset,
            boxes=tuple(replace(box, label=box.label + self.offset) for box in boxes),
            synset=self.names.get(label, ""),
            filename=str(record.index),
            height=height,
            width=width,
            channels=1 if grey else 3,
        )

    def _check(self, label: int, where: str) -> None:
        if max(abs(label), abs(label + self.offset)) > tfrecord.LARGEST_LABEL:
            raise DataError(
                error_line(
                    where,
                    expected=f"a label within ±2^24 after --label-offset {self.offset}",
                    got=label,
                    problem="from-tfrecord could not read it back",
                )
            )


def _class(labels: tuple[float, ...], where: str) -> int:
    if len(labels) != 1 or not labels[0].is_integer():
        raise DataError(error_line(where, expected="one whole label, or boxes", got=labels))
    return int(labels[0])


def _checked_size(image: bytes, where: str) -> tuple[int, int]:
    from im2rec_tools.formats.images import check  # noqa: PLC0415 - needed only to convert

    try:
        return check(image)
    except DataError as error:
        raise DataError(error_line(where, problem=str(error))) from error


def plan_to_tfrecord(
    path: Path,
    out: Path,
    *,
    set: str,
    labels: Path | None,
    boxes: Path | None,
    lists: Path | None,
    label_offset: int,
) -> Plan:
    """Plan to convert RecordIO shards to TFRecord files."""
    shards = record_files(path)
    found = read_labels(labels) if labels else {}
    names = {label: name for name, label in found.items()}
    if boxes and not labels:
        fix = "Give the labels file of the images, which has the class of each label"
        raise DataError(error_line("--boxes", expected="--labels FILE", got="none", fix=fix))
    listed = ListedBoxes(AnnotationFolder(boxes, found), lists) if boxes else None
    job = Export(
        out=out,
        shards=shards,
        targets=[out / f"{set}-{n:05}-of-{len(shards):05}" for n in range(len(shards))],
        kind="TFRecord files",
        settings=f"to_tfrecord_{set}.json",
        options=[names, label_offset, *([str(boxes)] if boxes else [])],
        encode=_Encoder(names=names, offset=label_offset, listed=listed).encode,
    )
    plan = export_plan(job)

    def work() -> Iterator[Update]:
        yield from plan.work()
        if listed:
            counts = listed.annotations.counts
            yield from count_lines(counts, out / f"to_tfrecord_{set}_boxes.bad.tsv")

    return replace(plan, work=work)


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


def _images(offset: int, with_boxes: bool, source: Path, first: int) -> Iterator[ImageRecord]:
    """Yield the images of a file, the first with this index.

    with_boxes: yield the images that have boxes, as detection records.
    """
    index = first
    for number, data in enumerate(tfrecord.records(source)):
        where = f"{source}: record {number}"
        example = tfrecord.parse(data, where)
        boxes = tfrecord.parse_boxes(data, where, example.label) if with_boxes else ()
        if with_boxes and not boxes:
            continue
        least = min([example.label, *(box.label for box in boxes)])
        if least < offset:
            fix = "Keep labels unchanged with --label-offset 0"
            wanted = f"a label of {offset} or more"
            raise DataError(error_line(where, expected=wanted, got=least, fix=fix))
        _checked_size(example.image, where)
        moved = (replace(box, label=box.label - offset) for box in boxes)
        labels = detection_labels(moved) if boxes else (float(example.label - offset),)
        yield ImageRecord(index=index, labels=labels, image=example.image)
        index += 1


def plan_from_tfrecord(path: Path, out: Path, *, set: str, boxes: bool, label_offset: int) -> Plan:
    """Plan to convert TFRecord files to RecordIO shards."""
    return import_plan(
        Import(
            sources=_sources(path, set),
            out=out,
            name=set,
            options={"label_offset": label_offset, **({"boxes": True} if boxes else {})},
            given=f" with --label-offset {label_offset}{' --boxes' if boxes else ''}",
            images=partial(_images, label_offset, boxes),
        )
    )
