"""Image lists (upstream's .lst files): parsing, writing, labels, order."""

import hashlib
import random
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from im2rec_tools.errors import DataError, plain, quoted
from im2rec_tools.files import atomic_file, digest, write_text
from im2rec_tools.formats.tree import listable_path
from im2rec_tools.progress import Progress

_SHUFFLE_SEED = 100  # upstream's
BACKGROUND = "background"
_BLANK = " \t\r\n"
_BYTE_ORDER_MARK = "\ufeff"
_LARGEST_LABEL = 3.4e38  # of a 32-bit float
_SAY_EVERY = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One image: its number in the whole set, its label or labels, its path below the root."""

    index: int
    labels: tuple[float, ...]
    path: str


def emit(entry: Entry) -> str:
    """The entry as a line without its newline; `parse` is its inverse."""
    labels = "\t".join(f"{label:f}" for label in entry.labels)
    return f"{entry.index}\t{labels}\t{entry.path}"


def parse(line: str, where: str) -> Entry:
    """The entry on a line; DataError naming `where` for any other line.

    Blanks around fields do not count, as in upstream's reader.
    """
    try:
        index, first, *others = (field.strip() for field in line.split("\t"))
        *more, path = others
        labels = tuple(float(plain(label)) for label in (first, *more))
        entry = Entry(index=int(plain(index)), labels=labels, path=path)
    except ValueError:
        raise DataError(
            f"{where}: expected 'index<TAB>label<TAB>path', got {quoted(line)}"
        ) from None
    fits = all(abs(label) < _LARGEST_LABEL for label in labels)  # which NaN is not
    if not (0 <= entry.index < 2**64 and fits and path and "\0" not in path):
        raise DataError(
            f"{where}: expected index 0 to 2^64 - 1, labels of 32-bit floats and a path, "
            f"got {quoted(line)}"
        )
    return entry


def read(path: Path) -> Iterator[Entry]:
    """The entries of a .lst file, one after another."""
    number = 0
    if path.exists() and not path.is_file():  # a named pipe would hold us for ever
        raise DataError(f"{path}: expected a list of images, got no regular file; remove it")
    try:
        with path.open("rb") as file:
            for number, data in enumerate(file, 1):
                line = data.decode()
                if number == 1 and line.startswith(_BYTE_ORDER_MARK):
                    raise DataError(
                        f"{path}:1: expected an index, got a byte order mark; remove it: "
                        f"sed -i '1s/^\\xEF\\xBB\\xBF//' {path}"
                    )
                if line.strip(_BLANK):
                    yield parse(line.rstrip("\r\n"), f"{path}:{number}")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}:{number}: {_no_utf8(error)}") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def _no_utf8(error: UnicodeDecodeError) -> str:
    """What is wrong with a line, and where in it."""
    byte = error.object[error.start]
    return (
        f"expected UTF-8, got byte 0x{byte:02x} at column {error.start + 1} ({error.reason}); "
        f"convert the file with iconv"
    )


@dataclass(frozen=True, kw_only=True)
class ListContents:
    """A list that has been read whole: its entries, and how many of their ids came before.

    twice       ids that occur again; a shard's index finds one of their records
    first       the smallest of them
    """

    entries: int
    twice: int = 0
    first: int = 0


def check(path: Path) -> ListContents:
    """What a .lst file holds; DataError for the first line that is no entry."""
    ids = array("Q", (entry.index for entry in read(path)))
    again = [one for one, other in pairwise(sorted(ids)) if one == other]
    if not again:
        return ListContents(entries=len(ids))
    return ListContents(entries=len(ids), twice=len(again), first=again[0])


class Images:
    """The images of a set in order, with the label of each: 100 bytes an image, not 500."""

    def __init__(self) -> None:
        self._paths = bytearray()
        self._ends = array("q")
        self._labels = array("f")

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, label: float, path: str) -> None:
        """Appends an image."""
        self._paths += listable_path(path).encode()
        self._ends.append(len(self._paths))
        self._labels.append(label)

    def entry(self, index: int) -> Entry:
        """The image of this index."""
        start = self._ends[index - 1] if index else 0
        path = self._paths[start : self._ends[index]].decode()
        return Entry(index=index, labels=(self._labels[index],), path=path)


def shuffled_order(length: int, seed: int | None = _SHUFFLE_SEED) -> Sequence[int]:
    """The indices 0 … length - 1, shuffled as upstream does; in order where there is no seed."""
    indices = array("q", range(length))
    if seed is not None:
        random.Random(seed).shuffle(indices)
    return indices


def even_runs(length: int, count: int) -> list[range]:
    """Runs of 0 … length - 1 whose lengths differ by one at most."""
    ends = [length * n // count for n in range(count + 1)]
    return [range(a, b) for a, b in pairwise(ends)]


def list_paths(prefix: Path, count: int) -> list[Path]:
    """PREFIX_0.lst ... (PREFIX.lst where count is 1)."""
    names = [prefix.name if count == 1 else f"{prefix.name}_{number}" for number in range(count)]
    return [prefix.with_name(f"{name}.lst") for name in names]


def find_lists(prefix: Path) -> list[Path]:
    """The lists of a prefix that are there, in the order of their numbers.

    None where the first is missing: it is written last, so that making them was interrupted.
    Raises DataError where there is one list of all images beside those of parts.
    """
    lists = _numbered(prefix)
    if not lists or lists[0] not in {list_paths(prefix, 1)[0], list_paths(prefix, 2)[0]}:
        return []
    if len(lists) > 1 and lists[0].stem == prefix.name:
        raise DataError(f"{lists[0]}: stands beside {lists[1]}; move away what is not meant")
    return lists


def list_digests(prefix: Path) -> dict[Path, str]:
    """The lists of a prefix that are there, each with a digest of what it holds."""
    return {path: digest(path) for path in _numbered(prefix)}


def _numbered(prefix: Path) -> list[Path]:
    pattern = re.compile(re.escape(prefix.name) + r"(?:_([0-9]{1,9}))?\.lst")
    names = sorted(prefix.parent.iterdir()) if prefix.parent.is_dir() else []
    matches = [(match, path) for path in names if (match := pattern.fullmatch(path.name))]
    return [path for _, path in sorted(matches, key=lambda pair: int(pair[0][1] or -1))]


def write(prefix: Path, images: Images, indices: Sequence[int], count: int) -> list[Path]:
    """Writes the images in this order into `count` lists of even lengths; returns their paths.

    Raises DataError where there are fewer images than lists, or lists of another number of parts.
    """
    if len(images) < count:
        raise DataError(f"{prefix}: {len(images)} images cannot fill {count} shards")
    wanted = list_paths(prefix, count)
    for path in sorted(set(_numbered(prefix)) - set(wanted)):
        raise DataError(
            f"{path}: was made with other settings and would be packed beside the new lists; move "
            f"it away and run the same command again"
        )
    parts = list(zip(wanted, even_runs(len(images), count), strict=True))
    for path, run in reversed(parts):  # the first list last: `find_lists` relies on it
        write_list(path, images, indices, run)
    return wanted


def write_list(path: Path, images: Images, indices: Sequence[int], run: range) -> None:
    """Writes one list, of the images of this run of the order."""
    with atomic_file(path) as file:
        file.writelines(list_lines(images, indices, run))


def holds_images(there: Sequence[Path], images: Images, indices: Sequence[int]) -> bool:
    """Whether these lists hold just these images in this order."""
    for path, run in zip(there, even_runs(len(images), len(there)), strict=True):
        wanted = hashlib.sha256()
        for line in list_lines(images, indices, run):
            wanted.update(line)
        if wanted.hexdigest() != digest(path):
            return False
    return True


def list_lines(images: Images, indices: Sequence[int], run: range) -> Iterator[bytes]:
    """The lines of the list that holds this run of the order."""
    return (f"{emit(images.entry(indices[at]))}\n".encode() for at in run)


def write_labels(path: Path, names: Iterable[str]) -> None:
    """Writes the labels file: label, tab, class."""
    write_text(path, "".join(f"{label}\t{name}\n" for label, name in enumerate(names)))


def read_labels(path: Path) -> dict[str, int]:
    """Class to label, from a labels file."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error
    labels = {}
    for number, data in enumerate(lines, 1):
        try:
            line = data.decode()
        except UnicodeDecodeError as error:
            raise DataError(f"{path}:{number}: {_no_utf8(error)}") from error
        label, tab, name = line.partition("\t")
        if not (label.isdecimal() and len(label) < 10 and tab and name) or name in labels:
            raise DataError(f"{path}:{number}: expected 'label<TAB>class', got {quoted(line)}")
        labels[name] = int(label)
    return labels


def labels_of(prefix: Path) -> Path:
    """Where the labels of a prefix's lists stand."""
    return prefix.with_name(f"{prefix.name}_labels.txt")


def gather(
    folders: Iterable[tuple[str, list[str]]], known: dict[str, int], images: Images, *, grow: bool
) -> Iterator[Progress]:
    """Adds the images of folders, each with its class's label.

    A class that is not known gets the next label where the labels may grow, and DataError else.
    """
    said = 0
    for name, files in folders:
        if name not in known:
            if not grow:
                raise DataError(f"{name}: is not a class of the training tree, by its labels")
            known[name] = len(known)
        for file in files:
            images.add(known[name], file if name == "." else f"{name}/{file}")
        if len(images) - said >= _SAY_EVERY:
            said = len(images)
            yield Progress(step="listing", done=said)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """How many lists: `chunks`, or as many as hold `images_per_shard` each at most."""

    chunks: int = 1
    images_per_shard: int = 0

    def __post_init__(self) -> None:
        if self.images_per_shard and self.chunks > 1:
            raise DataError("--chunks and --images-per-shard: expected one of them, got both")

    def __str__(self) -> str:
        if self.images_per_shard:
            return f"lists of {self.images_per_shard} images"
        return f"{self.chunks} lists" if self.chunks > 1 else "one list"

    def of(self, images: int) -> int:
        """The number of lists for so many images."""
        return -(-images // self.images_per_shard) if self.images_per_shard else self.chunks


def write_lists(
    prefix: Path, images: Images, known: Mapping[str, int], parts: Parts, *, shuffle: bool = True
) -> list[Path]:
    """Writes the lists and the labels file of a prefix; DataError where there is no image."""
    if not len(images):
        raise DataError(f"{prefix}: expected images to list, found none")
    indices = shuffled_order(len(images)) if shuffle else range(len(images))
    # First: where there are lists, a run that goes on writes neither.
    write_labels(labels_of(prefix), known)
    return write(prefix, images, indices, parts.of(len(images)))
