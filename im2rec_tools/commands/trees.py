"""Commands that move the images of a tree: `split`, `filter` and `val-tree`."""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from im2rec_tools.cli import Command, Option, integer, path, path_or_none
from im2rec_tools.commands.arguments import MIN_IMAGES, SEED, SMALL, TREE
from im2rec_tools.errors import DataError, quoted
from im2rec_tools.files import lock
from im2rec_tools.formats.tree import classes, is_image, listable_path, sizes, walk
from im2rec_tools.progress import Plan, Progress, Update

Small = Literal["stay", "move", "refuse"]
_SAY_EVERY = 1000
_NAMED = 5
_CLASS = re.compile(r"[^\s/\\.][^\s/\\]*")


def validation_root(root: Path) -> Path:
    """Where the validation images of the tree at `root` go: 'images' -> 'images_val'."""
    return root.with_name(f"{root.name}_val")


@dataclass(frozen=True, kw_only=True)
class SplitOptions:
    """How many images of each class go, which, and what becomes of classes with no more of them."""

    images: int = 50
    seed: int = 0
    small: Small = "stay"


def split(root: Path, wanted: SplitOptions) -> Plan:
    """Moves random images of each class to `validation_root(root)`.

    The choice depends on the seed and the names alone, so that an interrupted run goes on where
    it was and a second one does nothing. Raises DataError, before anything moves, where nothing
    could move, or where the validation tree holds images that it would not choose.
    """
    target = validation_root(root)
    train = classes(root) if root.is_dir() else {}
    val = _images(target)
    names = sorted({*train, *val})
    if not names:
        classes(root)
    moves: list[str] = []
    small: list[str] = []
    for name in names:
        moved = set(val.get(name, ()))
        both = moved & set(train.get(name, ()))
        if both:
            raise DataError(f"{root / name / min(both)}: is in {target} too; move one away")
        everything = sorted({*train.get(name, ()), *moved})
        chosen = _validation_choice(name, everything, wanted)
        if moved - chosen:
            raise DataError(
                f"{target / name}: holds images that this split does not choose: they come from "
                f"elsewhere (data.prepare --val-per-class 0 keeps them), or from other settings "
                f"(data.split {root} --undo puts them back)"
            )
        if len(everything) <= wanted.images:
            small.append(f"{name} ({len(everything)})")
        moves += [listable_path(f"{name}/{file}") for file in sorted(chosen - moved)]
    notes = _notes(root, small, wanted)
    if len(small) == len(names) and wanted.small == "stay":
        raise DataError(f"{root}: no class has more than {wanted.images} images; ask for fewer")
    total = sum(map(len, val.values())) + len(moves)
    last = f"{total} validation images of {len(names)} classes in {target}"
    return Plan(
        says=[*notes, f"would move {len(moves)} images from {root} to {target}"],
        work=lambda: _move_with_progress(root, (root, target), moves, [*notes, last]),
        moves=len(moves),
    )


def _images(root: Path) -> dict[str, list[str]]:
    """Images of each class, of a tree that need not be there or may be of empty folders."""
    return dict(walk(root)) if root.is_dir() else {}


def _remove_empty(root: Path) -> None:
    """Removes the class folders that are empty, and the root where nothing else is in it."""
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


def _notes(root: Path, small: list[str], wanted: SplitOptions) -> list[str]:
    if not small:
        return []
    named = ", ".join(small[:_NAMED]) + (", ..." if len(small) > _NAMED else "")
    have = f"{len(small)} classes have {wanted.images} images or fewer: {named}"
    if wanted.small == "refuse":
        raise DataError(f"{root}: {have}; --small stay keeps them for training, move moves them")
    fate = {"stay": "they stay, without validation images", "move": "all their images move"}
    return [f"{have}; {fate[wanted.small]}"]


def unsplit(root: Path) -> Plan:
    """Moves every image of `validation_root(root)` back; DataError where one is in both trees."""
    source = validation_root(root)
    moves = []
    if not source.is_dir():
        raise DataError(f"{source}: no such folder; nothing was split off {root}")
    for name, files in _images(source).items():
        for file in files:
            if (root / name / file).exists():
                raise DataError(f"{root / name / file}: is in {source} too; move one away")
            moves.append(f"{name}/{file}")
    last = f"{len(moves)} images are back in {root}"
    return Plan(
        says=[f"would move {len(moves)} images from {source} back to {root}"],
        work=lambda: _move_with_progress(root, (source, root), moves, [last]),
    )


def _move_with_progress(
    root: Path, places: tuple[Path, Path], moves: list[str], says: list[str]
) -> Iterator[Update]:
    """Moves from one place to the other; `says` ends with what is true then."""
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
    """Moves files from and to these places; DataError naming `where`, or the place."""
    for done, (source, target) in enumerate(moves):
        if done % _SAY_EVERY == 0:
            yield Progress(step=step, done=done, total=len(moves))
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            source.rename(target)
        except OSError as error:
            raise DataError(f"{where or target}: cannot be written ({error.strerror})") from error
    yield Progress(step=step, done=len(moves), total=len(moves))


def _plan_split(root: Path, *, images: int, seed: int, small: Small, undo: bool) -> Plan:
    return (
        unsplit(root) if undo else split(root, SplitOptions(images=images, seed=seed, small=small))
    )


SPLIT = Command(
    name="split",
    help="Move random images of each class to ROOT_val.",
    details="The same seed and file names give the same choice.",
    options=(
        TREE,
        Option("images", "N", "Images to move per class", default="50", parse=integer(1)),
        SEED,
        SMALL,
        Option("undo", "", "Move all images of ROOT_val back to ROOT", default=False),
    ),
    plan=_plan_split,
)


def filtered_root(root: Path) -> Path:
    """Where classes go that have too few images: 'full' -> 'full_filtered'."""
    return root.with_name(f"{root.name}_filtered")


def filter_tree(root: Path, *, least: int) -> Plan:
    """Moves each class with fewer than `least` images, and its folder, to `filtered_root(root)`.

    Raises DataError, before anything moves, where no class would stay or a place is taken.
    """
    train, target = sizes(root), filtered_root(root)
    # What `split` took counts too, so that a second run finds the same.
    split_off = sizes(validation_root(root)) if validation_root(root).is_dir() else {}
    counts = {name: count + split_off.get(name, 0) for name, count in train.items()}
    moves = [name for name, count in counts.items() if count < least]
    stay = len(counts) - len(moves)
    if not stay:
        largest = max(counts.values())
        raise DataError(f"{root}: no class has {least} images; the largest has {largest}")
    for name in moves:
        if (target / name).exists():
            raise DataError(f"{target / name}: is there already; move it away")
        if name in split_off:
            raise DataError(f"{validation_root(root) / name}: put it back first (split --undo)")

    def work() -> Iterator[Update]:
        for done, name in enumerate(moves, 1):
            try:
                target.mkdir(parents=True, exist_ok=True)
                (root / name).rename(target / name)
            except OSError as error:
                raise DataError(
                    f"{root / name}: cannot be moved to {target / name} ({error.strerror})"
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


FILTER = Command(
    name="filter",
    help="Move classes with too few images to ROOT_filtered.",
    options=(
        TREE,
        MIN_IMAGES,
        Option(
            "more-than",
            "",
            "Also move classes with exactly --min-images images, as the tutorial's script does",
            default=False,
            group=MIN_IMAGES.group,
        ),
    ),
    plan=lambda root, *, min_images, more_than: filter_tree(root, least=min_images + more_than),
)


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
        pairs = [(root / name, root / wanted[name] / name) for name in moves]
        yield from _move_all(pairs, f"moving to class folders of {root.name}")
        yield f"{len(wanted)} images in {len(names)} class folders of {root}"

    return Plan(
        says=[f"would move {len(moves)} images of {root} to folders of {len(names)} classes"],
        work=work,
    )


VAL_TREE = Command(
    name="val-tree",
    help="Move validation images to class folders.",
    details="The class of each image comes from a file.",
    options=(
        Option("root", "ROOT", "Folder of the validation images", parse=path),
        Option(
            "synsets",
            "SYNSETS",
            "File with one class per line, in order of the images' names; or lines 'IMAGE CLASS'",
            parse=path,
        ),
        Option(
            "classes",
            "N",
            "Fail unless the file names this many classes; 0 accepts any number",
            default="1000",
            parse=integer(0),
        ),
        Option(
            "train",
            "DIR",
            "Training tree that must have the same classes",
            default="",
            parse=path_or_none,
        ),
    ),
    plan=lambda root, synsets, *, classes, train: val_tree(
        root, synsets, expected=classes, train=train
    ),
)
