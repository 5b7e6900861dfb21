"""Command `pack`: packs listed images of a tree or a tar into RecordIO shards."""

import math
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from im2rec_tools.commands.arguments import (
    allowed_bad,
)
from im2rec_tools.errors import DataError, error_line
from im2rec_tools.files import format_size, lock, tsv_line, write_text
from im2rec_tools.formats.compression import with_plain_tar
from im2rec_tools.formats.lists import Images, Parts, check, find_lists, gather, write_lists
from im2rec_tools.formats.recipe import Recipe, describe
from im2rec_tools.formats.tars import TarImages
from im2rec_tools.formats.tree import SUFFIXES, walk
from im2rec_tools.packing import manifest
from im2rec_tools.packing.packer import (
    PackJob,
    bad_images_path,
    missing_shards,
    pack_shards,
    refused_path,
    shard_of,
)
from im2rec_tools.progress import Plan, Progress, Update


class TooManyBadError(DataError):
    """More bad images than allowed; `share` of all images."""

    def __init__(self, share: float, text: str) -> None:
        super().__init__(text)
        self.share = share


def pack_lists(work: PackJob, max_bad: float) -> Iterator[Update]:
    """Pack the lists without a shard; the last update is a line of totals.

    max_bad: fraction of bad images above which DataError is raised, after packing; rounded up to
    whole images.
    """
    totals: dict[Path, int] = {}
    for lst in work.lists:  # check all before writing anything
        totals[lst], note = count_listed(lst)
        yield from note
    with lock(work.folder):
        left = missing_shards(work)
        if len(left) < len(totals):
            yield f"{len(totals) - len(left)} of {len(totals)} shards exist already"
        if left:
            yield from pack_shards(work, left, totals)
    yield from _totals(work, sum(totals.values()), max_bad)


def count_listed(lst: Path) -> tuple[int, list[str]]:
    """Return the number of images of a list, and notes on it.

    Raises DataError for a bad line or an empty list.
    """
    found = check(lst)
    if not found.entries:
        raise DataError(error_line(lst, expected="images", got="none", fix="Make the list again"))
    if not found.twice:
        return found.entries, []
    return found.entries, [
        f"note: {lst}: {found.twice} duplicate ids, the first is {found.first}; readers by key "
        f"find one record per id"
    ]


def _first_of(bad_list: Path) -> str:
    """Return ', the first PATH (REASON)' of a list of bad images."""
    with bad_list.open(errors="replace") as rows:
        cells = rows.readline().rstrip("\n").split("\t")
    return f", the first {cells[1]} ({cells[2]})" if len(cells) == 3 else ""


def _totals(work: PackJob, total: int, max_bad: float) -> Iterator[str]:
    shards = [shard_of(lst, work.folder) for lst in work.lists]
    made = [one for one in map(manifest.read, shards) if one is not None]
    bad = sum(one.bad for one in made)
    listed = [bad_images_path(rec) for rec in shards if bad_images_path(rec).exists()]
    if bad:
        more = f" and {len(listed) - 1} more" if len(listed) > 1 else ""
        yield f"{bad} bad images skipped{_first_of(listed[0])}, see {listed[0]}{more}"
    if work.refused:
        place = refused_path(work)
        write_text(place, "".join(tsv_line(name, why) for name, why in work.refused.items()))
        yield f"{len(work.refused)} members of {work.source} rejected, see {place}"
        total, bad = total + len(work.refused), bad + len(work.refused)
    elif work.place:
        refused_path(work).unlink(missing_ok=True)
    size = format_size(sum(one.bytes for one in made))
    text = f"{total - bad} images in {len(shards)} shards, {size}, {bad} bad: {work.folder}"
    allowed = allowed_bad(total, max_bad)
    if bad > allowed:
        raise TooManyBadError(
            bad / total,
            error_line(
                text,
                problem=f"more bad images than --max-bad {max_bad * 100:g} % allows ({allowed})",
                fix=(
                    "Fix them and pack into another folder, or run the same command with "
                    f"--max-bad {_percent_above(bad / total)}"
                ),
            ),
        )
    yield text


def _percent_above(share: float) -> str:
    """Return a share in percent, rounded up to two digits: '3.4'."""
    percent = 100 * share
    step = 10 ** (math.floor(math.log10(percent)) - 1)
    return f"{math.ceil(percent / step) * step:.3g}"


def recipe_of(
    *,
    short_edge: int,
    quality: int,
    enlarge_small: bool,
    pass_through_small: bool,
    raw_pixels: bool,
) -> Recipe:
    """Return the recipe of the options `ENCODING`; raise DataError for a conflict."""
    if pass_through_small and (enlarge_small or raw_pixels):
        other = "--enlarge-small" if enlarge_small else "--raw-pixels"
        raise DataError(
            error_line(f"--pass-through-small and {other}", expected="one of them", got="both")
        )
    return Recipe(
        short_edge=short_edge,
        quality=quality,
        smaller="enlarge" if enlarge_small else "keep",
        keep_bytes="small" if pass_through_small else "none",
        encoding="raw" if raw_pixels else "jpg",
    )


def plan_pack(
    prefix: Path,
    root: Path,
    *,
    from_tar: bool,
    out: Path | None,
    chunks: int,
    images_per_shard: int,
    processes: int,
    max_bad: float,
    **encoding: Any,
) -> Plan:
    """Plan to pack the images of lists, which are made first if there are none."""
    recipe = recipe_of(**encoding)
    parts = Parts(chunks=chunks, images_per_shard=images_per_shard)
    _check_source(root, from_tar)
    known = PackJob(
        lists=find_lists(prefix),
        source=root,
        folder=out or prefix.parent,
        recipe=recipe,
        processes=processes or len(os.sched_getaffinity(0)),
    )
    if known.lists and (chunks > 1 and chunks != len(known.lists)):
        raise DataError(
            error_line(
                known.lists[0], expected=f"{chunks} lists (--chunks)", got=f"{len(known.lists)}"
            )
        )

    def packing(source: Path) -> Iterator[Update]:
        tar = TarImages(source) if from_tar else None
        yield from _ensure_lists(prefix, source, tar, parts)
        found = replace(known, lists=find_lists(prefix), source=source)
        if tar:
            found = replace(found, place=tar.place, refused=tar.refused)
        yield from pack_lists(found, max_bad)

    def work() -> Iterator[Update]:
        yield from with_plain_tar(root, known.folder, packing) if from_tar else packing(root)

    return Plan(says=_plan_lines(known, parts), work=work)


def _check_source(root: Path, from_tar: bool) -> None:
    if from_tar and not root.is_file():
        raise DataError(error_line(root, problem="no such file", fix="Give a tar of class tars"))
    if not from_tar and not root.is_dir():
        also = "; add --from-tar to pack from a tar" if root.is_file() else ""
        raise DataError(
            error_line(root, problem="no such folder", fix=f"Give the folder of the images{also}")
        )


def _plan_lines(known: PackJob, parts: Parts) -> Iterator[str]:
    left = missing_shards(known)
    found = [count_listed(lst) for lst in left]
    yield from (note for _, notes in found for note in notes)
    recipe = describe(known.recipe)
    if known.lists:
        count = sum(images for images, _ in found)
        there = f"{len(known.lists) - len(left)} exist already; {recipe}"
        shards = f"{len(left)} shards in {known.folder}"
        yield f"would pack {count} images of {known.source}: {shards}; {there}"
    else:
        yield f"would list the images of {known.source} in {parts}"
        yield f"and pack them in {known.folder}; {recipe}"


def _ensure_lists(
    prefix: Path, root: Path, tar: TarImages | None, parts: Parts
) -> Iterator[Progress]:
    """Write the lists if there are none; always read the index of a tar."""
    there = find_lists(prefix)
    if there and not tar:
        return
    images, known = Images(), dict[str, int]()
    yield from gather(tar.folders(SUFFIXES) if tar else walk(root), known, images, grow=True)
    if not there:
        write_lists(prefix, images, known, parts)
