"""What is to be packed, and what of it is there."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from im2rec_tools import manifest
from im2rec_tools.errors import DataError
from im2rec_tools.recipe import Recipe
from im2rec_tools.words import quoted


@dataclass(frozen=True, kw_only=True)
class Work:
    """Lists to pack: where their images are (a folder or a tar), into which folder, and how.

    `place` gives offset and size in the tar of an image's path; `refused` has the members of the
    tar that are not packed, with the reason.
    """

    lists: Sequence[Path]
    source: Path
    folder: Path
    recipe: Recipe
    processes: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    place: Callable[[str], tuple[int, int]] | None = None
    refused: Mapping[str, str] = field(default_factory=dict)


def shard_of(lst: Path, folder: Path) -> Path:
    """The .rec that a list is packed into."""
    return folder / f"{lst.stem}.rec"


def bad_of(rec: Path) -> Path:
    """Where the images that a shard leaves out are listed."""
    return rec.with_suffix(".bad.tsv")


def refused_of(work: Work) -> Path:
    """Where the members of a tar that are not packed are listed."""
    return work.folder / f"{work.source.name}.bad.tsv"


def unfinished(work: Work) -> list[Path]:
    """The lists whose shards are not there yet.

    Raises DataError for a shard that is there and was made of another list or by another recipe.
    """
    return [lst for lst in work.lists if not _is_packed(lst, work)]


def _is_packed(lst: Path, work: Work) -> bool:
    rec = shard_of(lst, work.folder)
    made = manifest.read(rec)
    if not rec.exists():
        if made is None and rec.with_suffix(".idx").exists():
            raise DataError(f"{rec.with_suffix('.idx')}: is there already; move it away")
        return False
    if made is None:
        raise DataError(f"{rec}: is there already, without a manifest; move it away")
    found = rec.stat().st_size
    if made.bytes != found:
        raise DataError(f"{rec}: expected {made.bytes} bytes, found {found}; move it away")
    differs = [
        f"{name} {quoted(made.recipe.get(name))}, now {quoted(value)}"
        for name, value in asdict(work.recipe).items()
        if made.recipe.get(name) != value
    ]
    if made.list_sha256 != manifest.digest(lst):
        differs.append("another list")
    if differs:
        raise DataError(
            f"{rec}: was packed with other settings ({'; '.join(differs)}); move it away, or pack "
            f"into another folder"
        )
    return True
