"""Command `to-tfrecord`: RecordIO shards to TFRecord shards of ImageNet's Examples."""

import sys
from collections.abc import Iterator
from pathlib import Path

from im2rec_tools import listing, tfrecord
from im2rec_tools.command import Command, Option, main, path, path_or_none, whole
from im2rec_tools.errors import DataError
from im2rec_tools.files import check_space, size
from im2rec_tools.files import whole as whole_file
from im2rec_tools.progress import Plan, Progress, Update
from im2rec_tools.recordio import count_records, records, unpack
from im2rec_tools.shards import recs

_SAY_EVERY = 500


def _example(payload: bytes, where: str, names: dict[int, str], offset: int) -> tfrecord.Example:
    import simplejpeg  # noqa: PLC0415 - only when there is something to convert

    from im2rec_tools.codec import check  # noqa: PLC0415

    record = unpack(payload, where)
    if len(record.labels) != 1 or record.labels[0] != int(record.labels[0]):
        raise DataError(f"{where}: expected one whole label, got {record.labels}")
    label = int(record.labels[0])
    try:
        height, width = check(record.image)
    except DataError as error:
        raise DataError(f"{where}: {error}") from error
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


def _plan(path: Path, out: Path, *, set: str, labels: Path | None, label_offset: int) -> Plan:
    shards = recs(path)
    found = listing.read_labels(labels) if labels else {}
    names = {label: name for name, label in found.items()}
    targets = [out / f"{set}-{n:05}-of-{len(shards):05}" for n in range(len(shards))]

    def work() -> Iterator[Update]:
        for rec, target in zip(shards, targets, strict=True):
            if target.exists() and target.stat().st_mtime_ns < rec.stat().st_mtime_ns:
                raise DataError(f"{target}: is older than {rec}; move it away")
        left = [pair for pair in zip(shards, targets, strict=True) if not pair[1].exists()]
        counts = {rec: count_records(rec) for rec, _ in left}
        check_space(out, sum(rec.stat().st_size for rec, _ in left), "name another folder")
        done = 0
        for rec, target in left:
            with whole_file(target) as file:
                for number, (at, payload) in enumerate(records(rec)):
                    where = f"{rec}: record {number} at byte {at}"
                    example = _example(payload, where, names, label_offset)
                    file.write(tfrecord.frame(tfrecord.emit(example)))
                    done += 1
                    if done % _SAY_EVERY == 0:
                        yield Progress(step="converting", done=done, total=sum(counts.values()))
        yield (
            f"{done} images in {len(left)} TFRecord files, {len(targets) - len(left)} were there: "
            f"{out}/{set}-*-of-{len(shards):05}, "
            f"{size(sum(target.stat().st_size for target in targets))}"
        )

    says = (f"would write {target} from {rec}" for rec, target in zip(shards, targets, strict=True))
    return Plan(says=says, work=work)


OFFSET = Option(
    name="label-offset",
    help="added to labels on the way to TFRecord, where 0 is the background",
    default="1",
    parse=whole(0, 1),
)
COMMAND = Command(
    name="to-tfrecord",
    help="Converts RecordIO shards to TFRecords with the fields of ImageNet's.",
    options=(
        Option(name="path", help="a .rec, or a folder of them", parse=path),
        Option(name="out", help="folder of the TFRecord files", parse=path),
        Option(name="set", help="first part of their names: train, validation", default="train"),
        Option(name="labels", help="labels file, for class names", default="", parse=path_or_none),
        OFFSET,
    ),
    plan=_plan,
)

if __name__ == "__main__":
    sys.exit(main(COMMAND))
