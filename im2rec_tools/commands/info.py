"""Command `info`: what shards hold, from the headers of their records."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from im2rec_tools.cli import Command, Option, path
from im2rec_tools.files import format_size
from im2rec_tools.formats.recipe import describe
from im2rec_tools.formats.recordio import headers
from im2rec_tools.formats.tree import record_files
from im2rec_tools.packing import manifest
from im2rec_tools.packing.verify import check_counts
from im2rec_tools.progress import Plan, Progress, Update


@dataclass(frozen=True, kw_only=True)
class Info:
    """Images of each label or labels, and the bytes of each image, of one shard."""

    path: Path
    labels: Counter[tuple[float, ...]]
    sizes: list[int]


def info(rec: Path) -> Info:
    """What a shard holds; DataError where it is damaged."""
    labels: Counter[tuple[float, ...]] = Counter()
    sizes = []
    for record, length in headers(rec):
        labels[record.labels] += 1
        sizes.append(length)
    check_counts(rec, len(sizes), manifest.read(rec))
    return Info(path=rec, labels=labels, sizes=sizes)


def _recipe(rec: Path) -> str:
    made = manifest.read(rec)
    if made is None:
        return "no manifest: not packed by this program, or its .json is missing"
    by = ", ".join(f"{name} {value}" for name, value in made.versions.items())
    return f"{describe(made.recipe)}; {by}"


def _bad(rec: Path) -> str:
    made = manifest.read(rec)
    return f", {made.bad} bad left out" if made and made.bad else ""


def _plan(path: Path) -> Plan:
    shards = record_files(path)

    def work() -> Iterator[Update]:
        labels: Counter[tuple[float, ...]] = Counter()
        sizes: list[int] = []
        recipes: dict[str, None] = {}
        for rec in shards:
            one = info(rec)
            labels += one.labels
            sizes += one.sizes
            recipes[_recipe(rec)] = None
            yield (
                f"{rec.name}: {len(one.sizes)} images of {len(one.labels)} labels, "
                f"{format_size(rec.stat().st_size)}{_bad(rec)}"
            )
            yield Progress(step="reading headers", done=len(sizes))
        yield from (f"recipe: {recipe}" for recipe in recipes)
        yield from _spread(labels, sizes)
        yield (
            f"{len(sizes)} images of {len(labels)} labels in {len(shards)} shards, "
            f"{format_size(sum(rec.stat().st_size for rec in shards))}"
        )

    return Plan(says=(f"would read the headers of {rec}" for rec in shards), work=work)


def _spread(labels: Counter[tuple[float, ...]], sizes: list[int]) -> Iterator[str]:
    if not sizes:
        return
    yield f"bytes an image: {min(sizes)} to {max(sizes)}, median {median(sizes):.0f}"
    ranked = labels.most_common()
    (most, many), (least, few) = ranked[0], ranked[-1]
    shown = ["/".join(f"{value:g}" for value in label) for label in (least, most)]
    yield f"images a label: {few} (label {shown[0]}) to {many} (label {shown[1]})"


COMMAND = Command(
    name="info",
    help="Says what a shard or a folder of shards holds: counts, labels, sizes, recipe.",
    options=(Option(name="path", help="a .rec, or a folder of them", parse=path),),
    plan=_plan,
)
