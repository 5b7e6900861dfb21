"""Recipe: how images are resized, encoded and labeled in records."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

_STRIDE = 32  # of ResNet: other edges waste the last pixels


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How an image is resized, encoded and labeled.

    short_edge  length of the short edge in pixels; 0 keeps the size
    quality     JPEG quality, 0 to 100, or PNG compression level, 0 to 9
    smaller     whether images below the short edge are enlarged
    keep_bytes  images stored byte for byte after a check: none, JPEGs no larger than the short
                edge (small), or all
    encoding    format of the other images; raw is a BMP, uncompressed
    labels      labels of the list that the record stores
    """

    short_edge: int = 256
    quality: int = 90
    smaller: Literal["keep", "enlarge"] = "keep"
    keep_bytes: Literal["none", "small", "all"] = "none"
    encoding: Literal["jpg", "png", "raw"] = "jpg"
    color: Literal["color", "grey", "unchanged"] = "color"
    center_crop: bool = False
    labels: Literal["all", "first"] = "all"


def square_edge(most: int) -> int:
    """Return the edge of the square input for images with this short edge, in pixels."""
    if most <= _STRIDE:
        return most
    return most - most % (_STRIDE if most >= 3 * _STRIDE else 8)


def describe(recipe: Recipe | Mapping[str, Any]) -> str:
    """Return a recipe, or the fields of one in a manifest, as text."""
    fields = asdict(recipe) if isinstance(recipe, Recipe) else recipe
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in fields.items())
