"""Lists of images, as upstream's .lst files: index, label and path, joined by tabs."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from im2rec_tools.errors import DataError
from im2rec_tools.files import write_whole

_SHUFFLE_SEED = 100  # upstream's


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One image: its number in the whole set, its class's label, its path below the root."""

    index: int
    label: float
    path: str


def emit(entry: Entry) -> str:
    """The entry as a line without its newline; `parse` is its inverse."""
    return f"{entry.index}\t{entry.label:f}\t{entry.path}"


def parse(line: str, where: str) -> Entry:
    """The entry on a line; DataError naming `where` for any other line."""
    parts = line.split("\t")
    try:
        index, label, path = int(parts[0]), float(parts[1]), parts[2]
    except (ValueError, IndexError):
        raise DataError(f"{where}: expected 'index<TAB>label<TAB>path', got {line!r}") from None
    return Entry(index=index, label=label, path=path)


def read(path: Path) -> list[Entry]:
    """The entries of a .lst file."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [parse(line, f"{path}:{number}") for number, line in enumerate(lines, 1) if line]


def entries(root: Path, tree: Mapping[str, Sequence[Path]], labels: Sequence[str]) -> list[Entry]:
    """All images of a tree in shuffled order, each class's label its place in `labels`.

    Raises DataError for a class that is not among the labels.
    """
    paths = []
    for name, files in tree.items():
        if name not in labels:
            raise DataError(f"{root / name}: is not a class of the training tree")
        paths += [(labels.index(name), str(file.relative_to(root))) for file in files]
    numbered = [
        Entry(index=index, label=label, path=path) for index, (label, path) in enumerate(paths)
    ]
    random.Random(_SHUFFLE_SEED).shuffle(numbered)
    return numbered


def chunks(everything: Sequence[Entry], count: int) -> list[list[Entry]]:
    """The entries in order, cut into `count` runs whose lengths differ by one at most."""
    size, longer = divmod(len(everything), count)
    ends = [size * (n + 1) + min(n + 1, longer) for n in range(count)]
    return [list(everything[a:b]) for a, b in zip([0, *ends], ends, strict=False)]


def write(prefix: Path, everything: Sequence[Entry], count: int) -> list[Path]:
    """Writes PREFIX_0.lst ... (PREFIX.lst where count is 1); returns their paths.

    Raises DataError where there are fewer images than lists.
    """
    if len(everything) < count:
        raise DataError(f"{prefix}: {len(everything)} images cannot fill {count} shards")
    names = [prefix.name if count == 1 else f"{prefix.name}_{number}" for number in range(count)]
    paths = [prefix.with_name(f"{name}.lst") for name in names]
    for path, chunk in zip(paths, chunks(everything, count), strict=True):
        write_whole(path, "".join(emit(entry) + "\n" for entry in chunk))
    return paths
