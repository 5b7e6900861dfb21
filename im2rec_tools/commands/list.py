"""Command `list`: a labeled tree to image lists, one per shard, and labels."""

from collections.abc import Generator, Iterator
from pathlib import Path

from im2rec_tools.errors import DataError, error_line
from im2rec_tools.formats import lists
from im2rec_tools.formats.annotations import AnnotationFolder, count_lines
from im2rec_tools.formats.boxes import detection_labels
from im2rec_tools.formats.lists import Images, Parts, gather, labels_of, write_lists
from im2rec_tools.formats.tree import walk
from im2rec_tools.progress import Plan, Progress, Update

_UPDATE_EVERY = 1000


def _detection_images(
    images: Images, root: Path, annotations: AnnotationFolder
) -> Generator[Update, None, Images]:
    """Return the images that have boxes, with the labels of detection records."""
    from im2rec_tools.formats.images import file_size  # noqa: PLC0415 - needed for boxes only

    kept = Images()
    for number in range(len(images)):
        path = images.entry(number).path
        size = (1, 1, 1)
        if annotations.find(path):
            try:
                size = file_size(root / path)
            except DataError as error:
                annotations.counts.bad[path] = str(error)
                continue
        if boxes := annotations.boxes(path, size[:2], size[2]):
            kept.add(detection_labels(boxes), path)
        if number % _UPDATE_EVERY == 0:
            yield Progress(step="reading boxes", done=number, total=len(images))
    return kept


def plan_list(
    prefix: Path,
    root: Path,
    *,
    chunks: int,
    images_per_shard: int,
    labels: Path | None,
    boxes: Path | None,
    background: bool,
    no_shuffle: bool,
    exts: tuple[str, ...],
) -> Plan:
    """Plan to write the lists and the labels file of a tree."""
    parts = Parts(chunks=chunks, images_per_shard=images_per_shard)
    known = lists.read_labels(labels) if labels else {}
    if background and not labels:
        known = {lists.BACKGROUND: 0}
    if not root.is_dir():
        raise DataError(
            error_line(
                root,
                problem="no such folder",
                fix="Give a folder with one folder of images per class",
            )
        )

    annotations = AnnotationFolder(boxes, known) if boxes else None

    def work() -> Iterator[Update]:
        images = Images()
        yield from gather(walk(root, exts), known, images, grow=labels is None)
        if annotations:
            images = yield from _detection_images(images, root, annotations)
            yield from count_lines(
                annotations.counts, prefix.with_name(f"{prefix.name}_boxes.bad.tsv")
            )
        older = lists.list_digests(prefix)
        made = write_lists(prefix, images, known, parts, shuffle=not no_shuffle)
        now = lists.list_digests(prefix)
        replaced = [path for path in made if older.get(path, now[path]) != now[path]]
        if replaced:
            yield (
                f"note: {replaced[0]} replaced an older list"
                f"{f'; so did {len(replaced) - 1} more' if len(replaced) > 1 else ''}"
            )
        yield (
            f"{len(images)} images of {len(known)} classes in {len(made)} lists: "
            f"{made[0]}{f' ... {made[-1].name}' if len(made) > 1 else ''}, {labels_of(prefix)}"
        )

    return Plan(
        says=(f"would list the images of {root} in {parts}: {prefix}*.lst, {labels_of(prefix)}",),
        work=work,
    )
