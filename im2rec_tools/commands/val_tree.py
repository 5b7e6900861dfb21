"""Command `val-tree`: ILSVRC validation images, in one folder, to class folders."""

import re
from collections.abc import Iterator
from pathlib import Path

from im2rec_tools.cli import Command, Option, integer, path, path_or_none
from im2rec_tools.errors import DataError, quoted
from im2rec_tools.formats.tree import classes, is_image, walk
from im2rec_tools.progress import Plan, Progress, Update

_CLASS = re.compile(r"[^\s/\\.][^\s/\\]*")
_SAY_EVERY = 1000


def read_synsets(file: Path) -> list[tuple[str, str]]:
    """(image, class) of each line; the image is empty where a line is a class alone."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise DataError(f"{file}: cannot be read ({why})") from error
    pairs = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not 1 <= len(words) <= 2 or not _CLASS.fullmatch(words[-1]):
            raise DataError(
                f"{file}:{number}: expected 'class' or 'image class', got {quoted(line)}"
            )
        pairs.append((words[0] if len(words) == 2 else "", words[-1]))
    if not pairs or len({bool(image) for image, _ in pairs}) > 1:
        raise DataError(f"{file}: expected a class on each line, all with its image or none")
    return pairs


def _class_of_images(root: Path, synsets: Path) -> dict[str, str]:
    """Image to class. Lines without an image's name are for the images in the order of names."""
    pairs = read_synsets(synsets)
    if pairs[0][0]:
        return dict(pairs)
    there = [file.name for file in root.iterdir() if file.is_file() and is_image(file.name)]
    placed = [name for files in _images_in_place(root).values() for name in files]
    names = sorted([*there, *placed])
    if len(names) != len(pairs):
        raise DataError(
            f"{synsets}: expected a line an image, found {len(pairs)} lines and {len(names)} "
            f"images in {root}"
        )
    return {name: synset for name, (_, synset) in zip(names, pairs, strict=True)}


def _images_in_place(root: Path) -> dict[str, list[str]]:
    return {name: files for name, files in walk(root) if name != "."}


def val_tree(root: Path, synsets: Path, *, expected: int, train: Path | None) -> Plan:
    """Moves each image to the folder of its class; what is there already stays.

    Raises DataError, before anything moves, where classes or images are missing.
    """
    if not root.is_dir():
        raise DataError(f"{root}: no such folder; expected one of validation images")
    wanted = _class_of_images(root, synsets)
    names = sorted(set(wanted.values()))
    if expected and len(names) != expected:
        raise DataError(f"{synsets}: expected {expected} classes, found {len(names)} (--classes)")
    if train:
        known = classes(train)
        strange = [name for name in names if name not in known]
        missing = [name for name in known if name not in set(names)]
        for which, why in ((strange, f"is not in {train}"), (missing, f"is not in {synsets}")):
            if which:
                raise DataError(f"class {which[0]} {why}; {len(which)} classes are not")
    moves = [name for name, synset in wanted.items() if not (root / synset / name).is_file()]
    absent = [name for name in moves if not (root / name).is_file()]
    if absent:
        raise DataError(f"{root / absent[0]}: no such image; {len(absent)} are missing")

    def work() -> Iterator[Update]:
        step = f"moving to class folders of {root.name}"
        for done, name in enumerate(moves):
            if done % _SAY_EVERY == 0:
                yield Progress(step=step, done=done, total=len(moves))
            target = root / wanted[name] / name
            try:
                target.parent.mkdir(exist_ok=True)
                (root / name).rename(target)
            except OSError as error:
                raise DataError(f"{target}: cannot be written ({error.strerror})") from error
        yield Progress(step=step, done=len(moves), total=len(moves))
        yield f"{len(wanted)} images in {len(names)} class folders of {root}"

    return Plan(
        says=[f"would move {len(moves)} images of {root} to folders of {len(names)} classes"],
        work=work,
    )


def _plan(root: Path, synsets: Path, *, classes: int, train: Path | None) -> Plan:
    return val_tree(root, synsets, expected=classes, train=train)


COMMAND = Command(
    name="val-tree",
    help="Moves validation images to class folders, by a list of their classes.",
    options=(
        Option(name="root", help="folder of the images", parse=path),
        Option(
            name="synsets",
            help="file with a class a line, for the images by their names' order; or 'image class'",
            parse=path,
        ),
        Option(
            name="classes",
            help="classes to be expected; 0: any number",
            default="1000",
            parse=integer(0),
        ),
        Option(
            name="train",
            help="training tree, which must have the same classes",
            default="",
            parse=path_or_none,
        ),
    ),
    plan=_plan,
)
