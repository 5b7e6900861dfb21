"""What becomes of an image on its way into a record."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What becomes of an image.

    short_edge: pixels, 0 for the size it has; quality: of JPEG, 0 to 100, for PNG the compression.
    keep_bytes: whose bytes stay as they are after a check: nobody's, those of JPEGs with no more
    than the short edge, or everybody's. encoding: raw is a BMP, pixels as they are. labels: those
    of a list that go into the record.
    """

    short_edge: int = 256
    quality: int = 90
    smaller: Literal["keep", "enlarge"] = "keep"
    keep_bytes: Literal["none", "small", "all"] = "none"
    encoding: Literal["jpg", "png", "raw"] = "jpg"
    color: Literal["color", "grey", "unchanged"] = "color"
    center_crop: bool = False
    labels: Literal["all", "first"] = "all"


def describe(recipe: Recipe | Mapping[str, Any]) -> str:
    """The recipe as people read it, also one that a manifest holds."""
    fields = asdict(recipe) if isinstance(recipe, Recipe) else recipe
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in fields.items())
