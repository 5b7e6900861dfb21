"""The panels of a scaling figure and their texts."""

from collections.abc import Sequence
from typing import Any

from plots.figures.scaling import draw
from results.record import Record
from results.scaling import scaling


def panels(records: Sequence[Record], **more: Any) -> Any:
    return draw(scaling(records), "title", "footer", **more).axes


def texts(axes: Any) -> list[str]:
    return [one.get_text() for one in axes.texts]
