"""Image lists (.lst files, as im2rec.py writes them): reading, writing, labels."""

import hashlib
import random
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from im2rec_tools.errors import DataError, error_line, plain, quoted
from im2rec_tools.files import atomic_file, digest, write_text
from im2rec_tools.formats.tree import listable_path
from im2rec_tools.progress import Progress

_SHUFFLE_SEED = 100  # upstream's
BACKGROUND = "background"
# The class of each label of a prepared folder.
LABELS_FILE = "labels.txt"
_BLANK = " \t\r\n"
_BYTE_ORDER_MARK = "\ufeff"
_LARGEST_LABEL = 3.4e38  # of a 32-bit float
_UPDATE_EVERY = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One image: index in the whole set, labels, path relative to the root."""

    index: int
    labels: tuple[float, ...]
    path: str


def emit(entry: Entry) -> str:
    """Return the entry as a line without newline; `parse` is the inverse."""
    labels = "\t".join(f"{label:f}" for label in entry.labels)
    return f"{entry.index}\t{labels}\t{entry.path}"


def _bad_line(line: str, where: str) -> str:
    """Return the error for a line of another form, which names its bad field."""
    index, *labels = line.split("\t")[:-1] or [""]
    if not labels:
        return error_line(where, expected="'index<TAB>label<TAB>path'", got=quoted(line))
    with suppress(ValueError):
        int(plain(index.strip()))
        bad = next(one for one in labels if not _is_number(one.strip()))
        return error_line(where, expected="a number as label", got=quoted(bad))
    return error_line(where, expected="a whole number as index", got=quoted(index))


def _is_number(text: str) -> bool:
    try:
        float(plain(text))
    except ValueError:
        return False
    return True


def parse(line: str, where: str) -> Entry:
    """Parse a line; raise DataError, which begins with `where`, for a bad line.

    Spaces around fields are ignored, as in upstream's reader.
    """
    try:
        index, first, *others = (field.strip() for field in line.split("\t"))
        *more, path = others
        labels = tuple(float(plain(label)) for label in (first, *more))
        entry = Entry(index=int(plain(index)), labels=labels, path=path)
    except ValueError:
        raise DataError(_bad_line(line, where)) from None
    fits = all(abs(label) < _LARGEST_LABEL for label in labels)  # which NaN is not
    if not (0 <= entry.index < 2**64 and fits and path and "\0" not in path):
        raise DataError(
            error_line(
                where,
                expected="index 0 to 2^64 - 1, labels of 32-bit floats and a path",
                got=quoted(line),
            )
        )
    return entry


def read(path: Path) -> Iterator[Entry]:
    """Yield the entries of a .lst file."""
    number = 0
    if path.exists() and not path.is_file():  # opening a named pipe would block
        raise DataError(
            error_line(path, expected="an image list", got="no regular file", fix="Remove it")
        )
    try:
        with path.open("rb") as file:
            for number, data in enumerate(file, 1):
                line = data.decode()
                if number == 1 and line.startswith(_BYTE_ORDER_MARK):
                    raise DataError(
                        error_line(
                            f"{path}:1",
                            expected="an index",
                            got="a byte order mark",
                            fix=f"Remove it: sed -i '1s/^\\xEF\\xBB\\xBF//' {path}",
                        )
                    )
                if line.strip(_BLANK):
                    yield parse(line.rstrip("\r\n"), f"{path}:{number}")
    except UnicodeDecodeError as error:
        raise DataError(_no_utf8(f"{path}:{number}", error)) from error
    except OSError as error:
        raise DataError(error_line(path, problem=f"cannot be read ({error.strerror})")) from error


def _no_utf8(where: str, error: UnicodeDecodeError) -> str:
    """Return the error for a line that is not UTF-8: byte, column, reason."""
    byte = error.object[error.start]
    return error_line(
        where,
        expected="UTF-8",
        got=f"byte 0x{byte:02x} at column {error.start + 1} ({error.reason})",
        fix="Convert the file with iconv",
    )


@dataclass(frozen=True, kw_only=True)
class ListContents:
    """Counts of a list: entries and duplicate ids.

    twice       number of duplicates; a shard's index finds one record per id
    first       the smallest duplicate id
    """

    entries: int
    twice: int = 0
    first: int = 0


def check(path: Path) -> ListContents:
    """Count a list's entries and duplicate ids; raise DataError for a bad line."""
    ids = array("Q", (entry.index for entry in read(path)))
    again = [one for one, other in pairwise(sorted(ids)) if one == other]
    if not again:
        return ListContents(entries=len(ids))
    return ListContents(entries=len(ids), twice=len(again), first=again[0])


class Images:
    """Paths and labels of a set's images in compact form: 100 bytes per image."""

    def __init__(self) -> None:
        self._paths = bytearray()
        self._ends = array("q")
        self._labels = array("f")
        self._label_ends = array("q")

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, labels: Iterable[float], path: str) -> None:
        """Append an image."""
        self._paths += listable_path(path).encode()
        self._ends.append(len(self._paths))
        self._labels.extend(labels)
        self._label_ends.append(len(self._labels))

    def entry(self, index: int) -> Entry:
        """Return the image of this index."""
        start, first = (self._ends[index - 1], self._label_ends[index - 1]) if index else (0, 0)
        path = self._paths[start : self._ends[index]].decode()
        labels = tuple(self._labels[first : self._label_ends[index]])
        return Entry(index=index, labels=labels, path=path)


def shuffled_order(length: int, seed: int | None = _SHUFFLE_SEED) -> Sequence[int]:
    """Return the indices 0 to length - 1, shuffled as im2rec.py does.

    Without a seed they are in order.
    """
    indices = array("q", range(length))
    if seed is not None:
        random.Random(seed).shuffle(indices)
    return indices


def even_runs(length: int, count: int) -> list[range]:
    """Split 0 to length - 1 into ranges whose lengths differ by at most 1."""
    ends = [length * n // count for n in range(count + 1)]
    return [range(a, b) for a, b in pairwise(ends)]


def list_paths(prefix: Path, count: int) -> list[Path]:
    """Return PREFIX_0.lst, PREFIX_1.lst, ...; PREFIX.lst if count is 1."""
    names = [prefix.name if count == 1 else f"{prefix.name}_{number}" for number in range(count)]
    return [prefix.with_name(f"{name}.lst") for name in names]


def find_lists(prefix: Path) -> list[Path]:
    """Return the existing lists of a prefix, in the order of their numbers.

    The result is empty if the first list is missing: it is written last, so writing was
    interrupted. Raises DataError if both PREFIX.lst and PREFIX_N.lst exist.
    """
    lists = _numbered(prefix)
    if not lists or lists[0] not in {list_paths(prefix, 1)[0], list_paths(prefix, 2)[0]}:
        return []
    if len(lists) > 1 and lists[0].stem == prefix.name:
        raise DataError(
            error_line(
                lists[0],
                expected="one set of lists",
                got=f"{lists[1]} too",
                fix="Move one set away",
            )
        )
    return lists


def list_digests(prefix: Path) -> dict[Path, str]:
    """Return the existing lists of a prefix, each with its SHA-256."""
    return {path: digest(path) for path in _numbered(prefix)}


def _numbered(prefix: Path) -> list[Path]:
    pattern = re.compile(re.escape(prefix.name) + r"(?:_([0-9]{1,9}))?\.lst")
    names = sorted(prefix.parent.iterdir()) if prefix.parent.is_dir() else []
    matches = [(match, path) for path in names if (match := pattern.fullmatch(path.name))]
    return [path for _, path in sorted(matches, key=lambda pair: int(pair[0][1] or -1))]


def write(prefix: Path, images: Images, indices: Sequence[int], count: int) -> list[Path]:
    """Write the images in this order into `count` lists of even lengths.

    Returns their paths. Raises DataError if there are fewer images than lists, or if lists of
    another count exist.
    """
    if len(images) < count:
        raise DataError(
            error_line(
                prefix,
                expected=f"at least {count} images, one per shard",
                got=len(images),
                fix="Set fewer shards",
            )
        )
    wanted = list_paths(prefix, count)
    for path in sorted(set(_numbered(prefix)) - set(wanted)):
        raise DataError(
            error_line(
                path,
                problem="made with other settings; it would be packed with the new lists",
                fix="Move it away and run the same command again",
            )
        )
    parts = list(zip(wanted, even_runs(len(images), count), strict=True))
    for path, run in reversed(parts):  # the first list last: `find_lists` relies on it
        write_list(path, images, indices, run)
    return wanted


def write_list(path: Path, images: Images, indices: Sequence[int], run: range) -> None:
    """Write one list: the images of this range of the order."""
    with atomic_file(path) as file:
        file.writelines(list_lines(images, indices, run))


def holds_images(existing: Sequence[Path], images: Images, indices: Sequence[int]) -> bool:
    """Return whether these lists contain exactly these images in this order."""
    for path, run in zip(existing, even_runs(len(images), len(existing)), strict=True):
        wanted = hashlib.sha256()
        for line in list_lines(images, indices, run):
            wanted.update(line)
        if wanted.hexdigest() != digest(path):
            return False
    return True


def list_lines(images: Images, indices: Sequence[int], run: range) -> Iterator[bytes]:
    """Return the lines of the list for this range of the order."""
    return (f"{emit(images.entry(indices[at]))}\n".encode() for at in run)


def write_labels(path: Path, names: Iterable[str]) -> None:
    """Write the labels file: label, tab, class."""
    write_text(path, "".join(f"{label}\t{name}\n" for label, name in enumerate(names)))


def read_labels(path: Path) -> dict[str, int]:
    """Read a labels file; return the label of each class."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise DataError(error_line(path, problem=f"cannot be read ({error.strerror})")) from error
    labels = {}
    for number, data in enumerate(lines, 1):
        try:
            line = data.decode()
        except UnicodeDecodeError as error:
            raise DataError(_no_utf8(f"{path}:{number}", error)) from error
        label, tab, name = line.partition("\t")
        if not (label.isdecimal() and len(label) < 10 and tab and name) or name in labels:
            raise DataError(
                error_line(f"{path}:{number}", expected="'label<TAB>class'", got=quoted(line))
            )
        labels[name] = int(label)
    return labels


def labels_of(prefix: Path) -> Path:
    """Return the path of the labels file of a prefix."""
    return prefix.with_name(f"{prefix.name}_labels.txt")


def gather(
    folders: Iterable[tuple[str, list[str]]], known: dict[str, int], images: Images, *, grow: bool
) -> Iterator[Progress]:
    """Add the images of folders, each with the label of its class.

    grow: give an unknown class the next label; otherwise it raises DataError.
    """
    reported = 0
    for name, files in folders:
        if name not in known:
            if not grow:
                raise DataError(
                    error_line(
                        name,
                        expected="a class of the labels file",
                        got="another folder",
                        fix="Remove it, or list the training tree again",
                    )
                )
            known[name] = len(known)
        for file in files:
            images.add((known[name],), file if name == "." else f"{name}/{file}")
        if len(images) - reported >= _UPDATE_EVERY:
            reported = len(images)
            yield Progress(step="listing", done=reported)


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Number of lists: `chunks`, or lists of at most `images_per_shard` images."""

    chunks: int = 1
    images_per_shard: int = 0

    def __post_init__(self) -> None:
        if self.images_per_shard and self.chunks > 1:
            raise DataError(
                error_line("--chunks and --images-per-shard", expected="one of them", got="both")
            )

    def __str__(self) -> str:
        if self.images_per_shard:
            return f"lists of {self.images_per_shard} images"
        return f"{self.chunks} lists" if self.chunks > 1 else "one list"

    def of(self, images: int) -> int:
        """Return the number of lists for this many images."""
        return -(-images // self.images_per_shard) if self.images_per_shard else self.chunks


def write_lists(
    prefix: Path, images: Images, known: Mapping[str, int], parts: Parts, *, shuffle: bool = True
) -> list[Path]:
    """Write the lists and the labels file of a prefix; return the lists' paths.

    Raises DataError if there are no images.
    """
    if not len(images):
        raise DataError(
            error_line(
                prefix, expected="images to list", got="none", fix="Check the folder and --exts"
            )
        )
    indices = shuffled_order(len(images)) if shuffle else range(len(images))
    # The labels come first: a resumed run that finds lists writes neither.
    write_labels(labels_of(prefix), known)
    return write(prefix, images, indices, parts.of(len(images)))
