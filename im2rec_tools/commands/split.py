"""Command `split`: some images of each class move to a validation tree."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from im2rec_tools.cli import Command, Option, choice, integer, tree_root
from im2rec_tools.errors import DataError
from im2rec_tools.files import lock
from im2rec_tools.formats.tree import classes, listable_path, walk
from im2rec_tools.progress import Plan, Progress, Update

Small = Literal["stay", "move", "refuse"]
_SAY_EVERY = 1000
_NAMED = 5


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
        yield from _move_all(source, target, moves)
        _remove_empty(validation_root(root))
    yield last


def _move_all(source: Path, target: Path, moves: list[str]) -> Iterator[Progress]:
    step = f"moving to {target}"
    try:
        for done, name in enumerate(moves):
            if done % _SAY_EVERY == 0:
                yield Progress(step=step, done=done, total=len(moves))
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).rename(target / name)
    except OSError as error:
        raise DataError(f"{target}: cannot be written ({error.strerror})") from error
    yield Progress(step=step, done=len(moves), total=len(moves))


def _plan(root: Path, *, images: int, seed: int, small: Small, undo: bool) -> Plan:
    return (
        unsplit(root) if undo else split(root, SplitOptions(images=images, seed=seed, small=small))
    )


SMALL = Option(
    name="small",
    help="classes with no more images than move: they stay, all their images move, or refuse",
    default="stay",
    parse=choice("stay", "move", "refuse"),
)
COMMAND = Command(
    name="split",
    help="Moves random images of each class to ROOT_val, the same for the same seed.",
    options=(
        Option(name="root", help="labelled tree: a folder of images a class", parse=tree_root),
        Option(name="images", help="of each class that move", default="50", parse=integer(1)),
        Option(name="seed", help="of the choice", default="0", parse=integer(0)),
        SMALL,
        Option(name="undo", help="move all images of ROOT_val back", default=False),
    ),
    plan=_plan,
)
