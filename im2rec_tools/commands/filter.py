"""Command `filter`: classes with too few images move to a folder beside the tree."""

from collections.abc import Iterator
from pathlib import Path

from im2rec_tools.cli import Command, Option, integer, tree_root
from im2rec_tools.commands.split import validation_root
from im2rec_tools.errors import DataError
from im2rec_tools.formats.tree import sizes
from im2rec_tools.progress import Plan, Progress, Update


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
            _move(root / name, target / name)
            yield Progress(step=f"moving classes to {target.name}", done=done, total=len(moves))
        moved = sum(counts[name] for name in moves)
        yield (
            f"{len(moves)} classes with {moved} images moved to {target}; {stay} with "
            f"{sum(counts.values()) - moved} stay in {root}"
        )

    says = [f"would move {root / name}, {counts[name]} images, to {target}" for name in moves]
    says.append(f"{stay} of {len(counts)} classes stay")
    return Plan(says=says, work=work, moves=len(moves))


def _move(source: Path, target: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        source.rename(target)
    except OSError as error:
        raise DataError(f"{source}: cannot be moved to {target} ({error.strerror})") from error


def _plan(root: Path, *, min_images: int, more_than: bool) -> Plan:
    return filter_tree(root, least=min_images + more_than)


COMMAND = Command(
    name="filter",
    help="Moves classes with too few images to ROOT_filtered.",
    options=(
        Option(name="root", help="labelled tree: a folder of images a class", parse=tree_root),
        Option(
            name="min-images",
            help="classes with this many images or more stay, as the tutorial's text has it",
            default="500",
            parse=integer(1),
        ),
        Option(
            name="more-than",
            help="only those with more than --min-images stay, as the tutorial's shell has it",
            default=False,
        ),
    ),
    plan=_plan,
)
