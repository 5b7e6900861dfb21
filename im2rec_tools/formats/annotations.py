"""ILSVRC's bounding boxes: one XML file per image, in Pascal VOC's form.

The files come from elsewhere: document types, and so entities, are rejected, and the sizes of
files, numbers and nests are limited.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from xml.parsers import expat

from im2rec_tools.errors import DataError, brief, error_line, plain, quoted
from im2rec_tools.files import tsv_line, write_text
from im2rec_tools.formats.boxes import Box, clip

# ILSVRC's files have 1 to 30 kB.
_MOST_BYTES = 1 << 20
_DEEPEST = 16
_LARGEST = 1e9
_OBJECT = "annotation/object"
_EDGES = ("xmin", "ymin", "xmax", "ymax")
_SIZE = ("annotation/size/width", "annotation/size/height")


@dataclass(frozen=True, kw_only=True)
class NamedBox:
    """An object: class, and edges (xmin, ymin, xmax, ymax) in pixels."""

    name: str
    edges: tuple[float, float, float, float]


@dataclass(frozen=True, kw_only=True)
class Annotation:
    """The objects of an image, and the size in pixels that their edges refer to."""

    width: float
    height: float
    objects: tuple[NamedBox, ...]


class _Elements:
    """Handlers of an XML parser: keep the size and the objects of an annotation."""

    def __init__(self) -> None:
        self.size: dict[str, str] = {}
        self.objects: list[dict[str, str]] = []
        self._path: list[str] = []
        self._text: list[str] = []

    def start(self, name: str, _attributes: dict[str, str]) -> None:
        self._path.append(name)
        self._text.clear()
        if len(self._path) > _DEEPEST:
            raise DataError(error_line("", expected=f"at most {_DEEPEST} nested elements"))
        if "/".join(self._path) == _OBJECT:
            self.objects.append({})

    def end(self, _name: str) -> None:
        path, text = "/".join(self._path), "".join(self._text).strip()
        self._path.pop()
        self._text.clear()
        if path in _SIZE:
            self.size[path] = text
        elif path.startswith(f"{_OBJECT}/"):
            self.objects[-1][path.removeprefix(f"{_OBJECT}/")] = text

    def text(self, data: str) -> None:
        self._text.append(data)

    def document_type(self, *_: object) -> None:
        raise DataError(
            error_line("", expected="XML without a document type", got="one", fix="Remove it")
        )


def parse(data: bytes) -> Annotation:
    """Parse an annotation; raise DataError, without its file, for anything else."""
    found = _Elements()
    parser = expat.ParserCreate()
    parser.StartElementHandler = found.start
    parser.EndElementHandler = found.end
    parser.CharacterDataHandler = found.text
    parser.StartDoctypeDeclHandler = found.document_type
    try:
        parser.Parse(data, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        problem = f"no XML ({brief(error)})"
        raise DataError(error_line("", expected="an annotation", got=problem)) from error
    width, height = (_number(key, found.size.get(key, "")) for key in _SIZE)
    if width < 1 or height < 1:
        got = f"{width:g} x {height:g}"
        raise DataError(error_line("size", expected="at least 1 x 1 pixel", got=got))
    return Annotation(width=width, height=height, objects=tuple(map(_object, found.objects)))


def _object(texts: Mapping[str, str]) -> NamedBox:
    xmin, ymin, xmax, ymax = (_number(f"bndbox/{e}", texts.get(f"bndbox/{e}", "")) for e in _EDGES)
    return NamedBox(name=texts.get("name", ""), edges=(xmin, ymin, xmax, ymax))


def _number(key: str, text: str) -> float:
    name = key.removeprefix("annotation/")
    try:
        value = float(plain(text))
    except ValueError:
        value = math.nan
    if not abs(value) <= _LARGEST:
        raise DataError(error_line(name, expected="a number of pixels", got=quoted(text)))
    return value


def read(path: Path) -> Annotation:
    """Read an annotation; raise DataError, without its file, for a bad one."""
    if not path.is_file():  # opening a named pipe would block
        raise DataError(error_line("", problem="not a regular file"))
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise DataError(error_line("", problem=f"cannot be read ({error.strerror})")) from error
    if len(data) > _MOST_BYTES:
        raise DataError(error_line("", expected="at most 1 MiB", got="more"))
    return parse(data)


def same_shape(size: tuple[float, float], image: tuple[float, float]) -> bool:
    """Return whether two sizes (width, height) are one picture, scaled.

    Each edge may be a pixel off, because scaled sizes are rounded.
    """
    return abs(size[0] * image[1] - size[1] * image[0]) <= sum(size) + sum(image)


@dataclass(kw_only=True)
class BoxCounts:
    """Boxes and images so far; `bad` has the rejected annotations, with reasons."""

    boxes: int = 0
    images: int = 0
    without: int = 0
    clipped: int = 0
    empty: int = 0
    unknown: int = 0
    bad: dict[str, str] = field(default_factory=dict)


def count_lines(found: BoxCounts, place: Path) -> Iterator[str]:
    """Yield a line per count above 0; list the rejected annotations in `place`."""
    yield f"{found.boxes} boxes of {found.images} images; {found.without} images have none"
    for count, what in (
        (found.clipped, "boxes clipped at the edges of their images"),
        (found.empty, "boxes without an area inside their images skipped"),
        (found.unknown, "boxes of classes without a label skipped"),
    ):
        if count:
            yield f"{count} {what}"
    place.unlink(missing_ok=True)
    if found.bad:
        write_text(place, "".join(tsv_line(name, why) for name, why in found.bad.items()))
        yield f"{len(found.bad)} annotations rejected, see {place}"


class AnnotationFolder:
    """Annotations of the images of a set: DIR/CLASS/NAME.xml or DIR/NAME.xml.

    labels  label of each class; objects of other classes are skipped
    """

    def __init__(self, folder: Path, labels: Mapping[str, int]) -> None:
        if not folder.is_dir():
            fix = "Give the folder of ILSVRC's XML files"
            raise DataError(error_line(folder, problem="no such folder", fix=fix))
        self._folder, self._labels = folder, labels
        self.counts = BoxCounts()

    def find(self, path: str) -> Path | None:
        """Return the annotation of an image; None if it has none."""
        image = PurePosixPath(path)
        name, above = f"{image.stem}.xml", image.parent.name
        places = [self._folder / name]
        if above not in {"", ".."}:
            places.insert(0, self._folder / above / name)
        return next((one for one in places if one.exists()), None)

    def boxes(self, path: str, size: tuple[float, float], orientation: int = 1) -> tuple[Box, ...]:
        """Return the boxes of an image of this size (width, height); count all others."""
        place = self.find(path)
        found: tuple[Box, ...] = ()
        if place:
            try:
                found = self._normalized(read(place), size, orientation)
            except DataError as error:
                self.counts.bad[str(place)] = str(error)
        self.counts.boxes += len(found)
        self.counts.images += bool(found)
        self.counts.without += not found
        return found

    def _normalized(
        self, found: Annotation, size: tuple[float, float], orientation: int
    ) -> tuple[Box, ...]:
        if not same_shape((found.width, found.height), size):
            wanted = f"the proportions of the image ({size[0]:g} x {size[1]:g})"
            got = f"{found.width:g} x {found.height:g}"
            raise DataError(error_line("size", expected=wanted, got=got))
        if orientation != 1:
            problem = f"packing rotates the image (EXIF orientation {orientation})"
            raise DataError(error_line("", problem=problem))
        boxes = []
        for one in found.objects:
            if one.name not in self._labels:
                self.counts.unknown += 1
                continue
            xmin, xmax = (edge / found.width for edge in one.edges[::2])
            ymin, ymax = (edge / found.height for edge in one.edges[1::2])
            label = self._labels[one.name]
            whole = Box(label=label, xmin=xmin, ymin=ymin, xmax=xmax, ymax=ymax)
            inside = clip(whole)
            self.counts.empty += inside is None
            if inside:
                self.counts.clipped += inside != whole
                boxes.append(inside)
        return tuple(boxes)
