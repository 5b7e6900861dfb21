"""Commands `split`, `filter` and `val-tree`: move the images of a tree."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from im2rec_tools.errors import DataError, error_line, quoted
from im2rec_tools.files import lock
from im2rec_tools.formats.annotations import read as read_annotation
from im2rec_tools.formats.lists import find_lists, read
from im2rec_tools.formats.tree import (
    classes,
    is_image,
    listable_path,
    prepared_parts,
    sizes,
    walk,
)
from im2rec_tools.progress import Plan, Progress, Update

Small = Literal["stay", "move", "refuse"]
_UPDATE_EVERY = 1000
_NAMED = 5
_CLASS = re.compile(r"[^\s/\\.][^\s/\\]*")


def validation_root(root: Path) -> Path:
    """Return the folder of a tree's validation images: 'images_val' for 'images'."""
    return root.with_name(f"{root.name}_val")


@dataclass(frozen=True, kw_only=True)
class SplitOptions:
    """Settings of `split`: images to move per class, seed, action for small classes."""

    images: int = 50
    seed: int = 0
    small: Small = "stay"


def split(root: Path, wanted: SplitOptions) -> Plan:
    """Plan to move random images of each class to `validation_root(root)`.

    The choice depends only on the seed and the names, so a second run resumes an interrupted one
    and changes nothing after a complete one. Raises DataError, before any move, if no image can
    move or if the validation tree has other images.
    """
    target = validation_root(root)
    train = classes(root) if root.is_dir() else {}
    val = images_of(target)
    names = sorted({*train, *val})
    if not names:
        classes(root)
    moves: list[str] = []
    everything = {name: sorted({*train.get(name, ()), *val.get(name, ())}) for name in names}
    choice = choose(everything, wanted)
    for name in names:
        moved = set(val.get(name, ()))
        both = moved & set(train.get(name, ()))
        if both:
            raise DataError(
                error_line(
                    root / name / min(both), problem=f"is in {target} too", fix="Move one away"
                )
            )
        chosen = choice[name]
        if moved - chosen:
            raise DataError(
                error_line(
                    target / name,
                    problem="has images that this split does not choose",
                    fix=(
                        "If another program split them, use them with data.prepare "
                        "--val-per-class 0; if another seed or count did, move them back with "
                        f"data.split {root} --undo"
                    ),
                )
            )
        moves += [listable_path(f"{name}/{file}") for file in sorted(chosen - moved)]
    notes = small_class_notes(root, everything, wanted)
    total = sum(map(len, val.values())) + len(moves)
    last = f"{total} validation images of {len(names)} classes in {target}"
    return Plan(
        says=[*notes, f"would move {len(moves)} images from {root} to {target}"],
        work=lambda: _move_with_progress(root, (root, target), moves, [*notes, last]),
        moves=len(moves),
    )


def images_of(root: Path) -> dict[str, list[str]]:
    """Return each class's images; empty if there is no tree."""
    return dict(walk(root)) if root.is_dir() else {}


def _remove_empty(root: Path) -> None:
    """Remove empty class folders, and the root if it is empty then."""
    if not root.is_dir():
        return
    for folder in [one for one in root.iterdir() if one.is_dir()]:
        if not any(folder.iterdir()):
            folder.rmdir()
    if not any(root.iterdir()):
        root.rmdir()


def _validation_choice(name: str, everything: list[str], wanted: SplitOptions) -> set[str]:
    if len(everything) <= wanted.images:
        return set(everything) if wanted.small == "move" else set()
    return set(random.Random(f"{wanted.seed} {name}").sample(everything, wanted.images))


def choose(images: Mapping[str, Sequence[str]], wanted: SplitOptions) -> dict[str, set[str]]:
    """Choose validation images of each class from the sorted names of all."""
    return {name: _validation_choice(name, list(files), wanted) for name, files in images.items()}


def some(names: Sequence[str]) -> str:
    """Return the first names, and '...' if there are more."""
    return ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")


def small_class_notes(
    root: Path, images: Mapping[str, Sequence[str]], wanted: SplitOptions
) -> list[str]:
    """Return notes on the classes that are too small to split.

    Raises DataError if all are, or if there is one and the settings refuse it.
    """
    sizes = {name: len(files) for name, files in images.items()}
    small = [f"{name} ({size})" for name, size in sizes.items() if size <= wanted.images]
    if not small:
        return []
    if len(small) == len(sizes) and wanted.small == "stay":
        raise DataError(
            error_line(
                root,
                expected=f"a class with more than {wanted.images} images",
                got="none",
                fix="Use fewer images for validation: --val-per-class N",
            )
        )
    have = f"{len(small)} classes have {wanted.images} images or fewer: {some(small)}"
    if wanted.small == "refuse":
        raise DataError(
            error_line(
                root,
                problem=have,
                fix="Keep them for training with --small stay, or move them with --small move",
            )
        )
    fate = {"stay": "they stay, without validation images", "move": "all their images move"}
    return [f"{have}; {fate[wanted.small]}"]


def unsplit(root: Path) -> Plan:
    """Plan to move all validation images back; raise DataError for duplicates."""
    source = validation_root(root)
    moves = []
    if not source.is_dir():
        raise DataError(
            error_line(source, problem=f"no such folder; {root} has no validation images")
        )
    for name, files in images_of(source).items():
        for file in files:
            if (root / name / file).exists():
                raise DataError(
                    error_line(
                        root / name / file, problem=f"is in {source} too", fix="Move one away"
                    )
                )
            moves.append(f"{name}/{file}")
    last = f"{len(moves)} images moved back to {root}"
    return Plan(
        says=[f"would move {len(moves)} images from {source} back to {root}"],
        work=lambda: _move_with_progress(root, (source, root), moves, [last]),
    )


def _move_with_progress(
    root: Path, places: tuple[Path, Path], moves: list[str], says: list[str]
) -> Iterator[Update]:
    """Move images from one tree to the other.

    `says`: notes printed first; the last one is the result.
    """
    *notes, last = says
    source, target = places
    yield from notes
    with lock(root):
        pairs = [(source / name, target / name) for name in moves]
        yield from _move_all(pairs, f"moving to {target}", target)
        _remove_empty(validation_root(root))
    yield last


def _move_all(
    moves: Sequence[tuple[Path, Path]], step: str, where: Path | None = None
) -> Iterator[Progress]:
    """Move files (source, target); errors begin with `where`, or the target."""
    for done, (source, target) in enumerate(moves):
        if done % _UPDATE_EVERY == 0:
            yield Progress(step=step, done=done, total=len(moves))
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            source.rename(target)
        except OSError as error:
            raise DataError(
                error_line(where or target, problem=f"cannot be written ({error.strerror})")
            ) from error
    yield Progress(step=step, done=len(moves), total=len(moves))


def plan_split(root: Path, *, images: int, seed: int, small: Small, undo: bool) -> Plan:
    """Plan to move random images of each class to ROOT_val, or back."""
    parts = prepared_parts(root)
    if parts:
        return (
            _undo_prepared(root)
            if undo
            else Plan(says=_prepared_lines(root, parts), work=lambda: _prepared_lines(root, parts))
        )
    return (
        unsplit(root) if undo else split(root, SplitOptions(images=images, seed=seed, small=small))
    )


def _prepared_lines(folder: Path, parts: Mapping[str, Path]) -> Iterator[str]:
    """Yield the split of a prepared folder, from its lists."""
    for name in parts:
        found = find_lists(folder / "lists" / name)
        entries = [entry.labels for lst in found for entry in read(lst)]
        count = f"{len(entries)} images of {len(set(entries))} classes"
        yield f"{name}: {count if found else 'its lists are missing'}"
    yield f"{folder} is split already, by the lists in {folder / 'lists'}; nothing to move"


def _undo_prepared(folder: Path) -> Plan:
    """Plan to move the validation images of the tree back that was prepared."""
    root = folder.with_name(folder.name.removesuffix("_rec"))
    if root == folder or not root.is_dir():
        raise DataError(
            error_line(
                folder,
                problem="a prepared folder; its images are elsewhere",
                fix="Give the folder of the images: fab data.split DIR --undo",
            )
        )
    if validation_root(root).is_dir():
        return unsplit(root)
    line = f"no images to move back: {root} was not split by moving images"
    return Plan(says=[line], work=lambda: iter([line]))


def plan_filter(root: Path, *, min_images: int, more_than: bool) -> Plan:
    """Plan to move classes with too few images to ROOT_filtered."""
    return filter_tree(root, least=min_images + more_than)


def filtered_root(root: Path) -> Path:
    """Return the folder of a tree's small classes: 'full_filtered' for 'full'."""
    return root.with_name(f"{root.name}_filtered")


def _validation_sizes(root: Path) -> dict[str, int]:
    return sizes(validation_root(root)) if validation_root(root).is_dir() else {}


def small_classes(root: Path, least: int) -> tuple[dict[str, int], list[str]]:
    """Return the number of images per class, and the classes with fewer than `least`.

    Images of the validation tree count too, so the result is the same after a split. Raises
    DataError if all classes have fewer.
    """
    split_off = _validation_sizes(root)
    counts = {name: count + split_off.get(name, 0) for name, count in sizes(root).items()}
    small = [name for name, count in counts.items() if count < least]
    if len(small) == len(counts):
        raise DataError(
            error_line(
                root,
                expected=f"a class with {least} images or more",
                got=f"at most {max(counts.values())}",
                fix="Set a smaller --min-images",
            )
        )
    return counts, small


def filter_tree(root: Path, *, least: int) -> Plan:
    """Plan to move classes with fewer than `least` images to `filtered_root(root)`.

    Raises DataError, before any move, if no class would stay or a target exists.
    """
    target = filtered_root(root)
    split_off = _validation_sizes(root)
    counts, moves = small_classes(root, least)
    stay = len(counts) - len(moves)
    for name in moves:
        if (target / name).exists():
            raise DataError(error_line(target / name, problem="already exists", fix="Move it away"))
        if name in split_off:
            raise DataError(
                error_line(
                    validation_root(root) / name,
                    problem=f"the class {name} is small and split",
                    fix=f"Move its images back first with data.split {root} --undo",
                )
            )

    def work() -> Iterator[Update]:
        for done, name in enumerate(moves, 1):
            try:
                target.mkdir(parents=True, exist_ok=True)
                (root / name).rename(target / name)
            except OSError as error:
                raise DataError(
                    error_line(
                        root / name,
                        problem=f"cannot be moved to {target / name} ({error.strerror})",
                    )
                ) from error
            yield Progress(step=f"moving classes to {target.name}", done=done, total=len(moves))
        moved = sum(counts[name] for name in moves)
        yield (
            f"{len(moves)} classes with {moved} images moved to {target}; {stay} with "
            f"{sum(counts.values()) - moved} stay in {root}"
        )

    says = [f"would move {root / name}, {counts[name]} images, to {target}" for name in moves]
    says.append(f"{stay} of {len(counts)} classes stay")
    return Plan(says=says, work=work, moves=len(moves))


def read_synsets(file: Path) -> list[tuple[str, str]]:
    """Read (image, class) per line; image is empty if a line has only a class."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise DataError(error_line(file, problem=f"cannot be read ({why})")) from error
    pairs = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if not 1 <= len(words) <= 2 or not _CLASS.fullmatch(words[-1]):
            raise DataError(
                error_line(
                    f"{file}:{number}", expected="'class' or 'image class'", got=quoted(line)
                )
            )
        pairs.append((words[0] if len(words) == 2 else "", words[-1]))
    if not pairs or len({bool(image) for image, _ in pairs}) > 1:
        raise DataError(
            error_line(file, expected="one class per line, either all with an image or none")
        )
    return pairs


def _class_of_images(root: Path, synsets: Path) -> dict[str, str]:
    """Return the class of each image.

    Lines without an image name apply to the images in the order of their names.
    """
    there = [file.name for file in root.iterdir() if file.is_file() and is_image(file.name)]
    placed = [name for files in _images_in_place(root).values() for name in files]
    names = sorted([*there, *placed])
    if synsets.is_dir():
        return {name: _annotated_class(synsets, name) for name in names}
    pairs = read_synsets(synsets)
    if pairs[0][0]:
        return dict(pairs)
    if len(names) != len(pairs):
        raise DataError(
            error_line(
                synsets,
                expected="one line per image",
                got=f"{len(pairs)} lines for {len(names)} images in {root}",
            )
        )
    return {name: synset for name, (_, synset) in zip(names, pairs, strict=True)}


def _annotated_class(folder: Path, image: str) -> str:
    """Return the class that an image's annotation gives all its boxes."""
    path = folder / f"{Path(image).stem}.xml"
    try:
        found = sorted({one.name for one in read_annotation(path).objects})
    except DataError as error:
        raise DataError(error_line(path, problem=str(error))) from error
    if len(found) != 1 or not _CLASS.fullmatch(found[0]):
        got = ", ".join(map(quoted, found[:_NAMED])) or "none"
        fix = "Give a file with one class per line"
        raise DataError(error_line(path, expected="boxes of one class", got=got, fix=fix))
    return found[0]


def _images_in_place(root: Path) -> dict[str, list[str]]:
    return {name: files for name, files in walk(root) if name != "."}


def val_tree(root: Path, synsets: Path, *, expected: int, train: Path | None) -> Plan:
    """Plan to move each image to the folder of its class; skip those already there.

    expected  number of classes; 0 accepts any
    train     training tree that must have the same classes

    Raises DataError, before any move, for missing classes or images.
    """
    if not root.is_dir():
        raise DataError(
            error_line(
                root, problem="no such folder", fix="Give the folder of the validation images"
            )
        )
    wanted = _class_of_images(root, synsets)
    names = sorted(set(wanted.values()))
    if expected and len(names) != expected:
        raise DataError(
            error_line(
                synsets, expected=f"{expected} classes", got=f"{len(names)}", fix="Set --classes"
            )
        )
    if train:
        known = classes(train)
        strange = [name for name in names if name not in known]
        missing = [name for name in known if name not in set(names)]
        for which, why in ((strange, f"is not in {train}"), (missing, f"is not in {synsets}")):
            if which:
                raise DataError(
                    error_line(
                        f"class {which[0]}", problem=f"{why}, like {len(which)} classes in total"
                    )
                )
    moves = [name for name, synset in wanted.items() if not (root / synset / name).is_file()]
    absent = [name for name in moves if not (root / name).is_file()]
    if absent:
        raise DataError(
            error_line(root / absent[0], problem=f"no such image; {len(absent)} images are missing")
        )

    def work() -> Iterator[Update]:
        pairs = [(root / name, root / wanted[name] / name) for name in moves]
        yield from _move_all(pairs, f"moving to class folders of {root.name}")
        yield f"{len(wanted)} images in {len(names)} class folders of {root}"

    return Plan(
        says=[f"would move {len(moves)} images of {root} to folders of {len(names)} classes"],
        work=work,
    )


def plan_val_tree(root: Path, synsets: Path, *, classes: int, train: Path | None) -> Plan:
    """Plan to move validation images to class folders."""
    return val_tree(root, synsets, expected=classes, train=train)
