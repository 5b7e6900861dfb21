"""Bounding boxes as labels of detection records."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

# The label that mx.image.ImageDetIter reads: width of the header, width of an object, objects.
_HEADER = (2.0, 5.0)
_OBJECT_WIDTH = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Box:
    """An object: class, and edges as fractions of the image's width and height."""

    label: int
    xmin: float
    ymin: float
    xmax: float
    ymax: float

    @property
    def is_clipped(self) -> bool:
        """Whether all edges are inside the image and enclose an area."""
        return 0 <= self.xmin < self.xmax <= 1 and 0 <= self.ymin < self.ymax <= 1


def clip(box: Box) -> Box | None:
    """Return the part of a box that is inside the image; None if it has no area."""
    edges = (box.xmin, box.ymin, box.xmax, box.ymax)
    if not all(map(math.isfinite, edges)):
        return None
    xmin, ymin, xmax, ymax = (min(1.0, max(0.0, edge)) for edge in edges)
    inside = replace(box, xmin=xmin, ymin=ymin, xmax=xmax, ymax=ymax)
    return inside if inside.is_clipped else None


def detection_labels(boxes: Iterable[Box]) -> tuple[float, ...]:
    """Return the labels of a record: 2, 5, then class, xmin, ymin, xmax, ymax per box."""
    objects = ((one.label, one.xmin, one.ymin, one.xmax, one.ymax) for one in boxes)
    return (*_HEADER, *(float(value) for values in objects for value in values))


def boxes_of(labels: Sequence[float]) -> tuple[Box, ...]:
    """Return the boxes of a record's labels; empty if it is no detection record.

    Longer headers and objects are accepted, and boxes without an area are skipped, as in
    mx.image.ImageDetIter.
    """
    header, width = labels[:2] if len(labels) > _OBJECT_WIDTH + 1 else (0.0, 0.0)
    whole = float(header).is_integer() and float(width).is_integer()
    if not whole or header < len(_HEADER) or width < _OBJECT_WIDTH:
        return ()
    objects = labels[int(header) :]
    if len(objects) % int(width):
        return ()
    found = []
    for at in range(0, len(objects), int(width)):
        label, xmin, ymin, xmax, ymax = objects[at : at + _OBJECT_WIDTH]
        if not (float(label).is_integer() and label >= 0):
            return ()
        found.append(Box(label=int(label), xmin=xmin, ymin=ymin, xmax=xmax, ymax=ymax))
    return tuple(inside for box in found if (inside := clip(box)))


def class_labels(labels: tuple[float, ...]) -> tuple[float, ...]:
    """Return the classes of a detection record's boxes; other labels unchanged."""
    found = boxes_of(labels)
    return tuple(sorted({float(one.label) for one in found})) if found else labels
