"""Commands over shards: `info`, `verify`, `shard` and `join-index`."""

import os
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from im2rec_tools.errors import DataError, error_line, quoted
from im2rec_tools.files import atomic_file, format_size
from im2rec_tools.formats.boxes import class_labels
from im2rec_tools.formats.lists import LABELS_FILE, even_runs, read_labels
from im2rec_tools.formats.recipe import describe
from im2rec_tools.formats.recordio import count_records, headers, offsets_of, read_index
from im2rec_tools.formats.tree import prepared_parts, record_files, shard_sets
from im2rec_tools.packing import manifest
from im2rec_tools.packing.manifest import Manifest
from im2rec_tools.packing.pool import Pool
from im2rec_tools.packing.verify import ShardContents, VerifyTask, check_counts
from im2rec_tools.progress import Plan, Progress, Update

_BESIDE = (".rec", ".idx", ".json", ".bad.tsv")
_WAIT_SECONDS = 0.2
_NAMED = 10


@dataclass(frozen=True, kw_only=True)
class Info:
    """Images per label, bytes of each image, and the manifest of one shard."""

    labels: Counter[tuple[float, ...]]
    sizes: list[int]
    made: Manifest | None


def info(rec: Path) -> Info:
    """Read the headers of a shard; raise DataError if it is damaged."""
    labels: Counter[tuple[float, ...]] = Counter()
    sizes = []
    for record, length in headers(rec):
        labels[class_labels(record.labels)] += 1
        sizes.append(length)
    made = manifest.read(rec)
    check_counts(rec, len(sizes), made)
    return Info(labels=labels, sizes=sizes, made=made)


def _recipe(made: Manifest | None) -> str:
    if made is None:
        return "unknown (no manifest: packed by another program, or the .json is missing)"
    by = ", ".join(f"{name} {value}" for name, value in made.versions.items())
    return f"{describe(made.recipe)}; {by}"


def _parts(path: Path) -> dict[str, list[Path]]:
    """Return the shards of each part of a prepared folder.

    Other paths are one part without a name.
    """
    parts = prepared_parts(path) or {"": path}
    return {name: record_files(folder) for name, folder in parts.items()}


def _class_names(path: Path, labels: Iterable[tuple[float, ...]]) -> dict[float, str]:
    """Return the class of each label of a prepared folder.

    Empty without a labels file. Raises DataError if a label of the shards has no class.
    """
    file = path / LABELS_FILE
    if not prepared_parts(path) or not file.is_file():
        return {}
    names = {float(label): name for name, label in read_labels(file).items()}
    strange = sorted({label[0] for label in labels if len(label) == 1} - set(names))
    if strange:
        raise DataError(
            error_line(
                file,
                expected=f"a class for label {strange[0]:g}, which the shards have",
                got=f"labels {min(names, default=0):g} to {max(names, default=0):g}",
                fix="Move the folder away and prepare the images again",
            )
        )
    return names


def plan_info(path: Path) -> Plan:
    """Plan to print counts and sizes of shards, from their headers."""
    parts = _parts(path)
    shards = [rec for found in parts.values() for rec in found]

    def work() -> Iterator[Update]:
        labels: Counter[tuple[float, ...]] = Counter()
        count = 0
        for part, found in parts.items():
            part_labels, part_count = yield from _info_lines(path, part, found)
            labels += part_labels
            count += part_count
        names = _class_names(path, labels)
        if names:
            more = ", ..." if len(names) > _NAMED else ""
            yield f"{len(names)} classes: {', '.join([*names.values()][:_NAMED])}{more}"
        yield (
            f"{count} images of {len(labels)} labels in {len(shards)} shards, {_size_of(shards)}"
        )

    return Plan(says=(f"would read the headers of {rec}" for rec in shards), work=work)


def _size_of(shards: Iterable[Path]) -> str:
    return format_size(sum(rec.stat().st_size for rec in shards))


def _info_lines(
    path: Path, part: str, shards: Sequence[Path]
) -> Generator[Update, None, tuple[Counter[tuple[float, ...]], int]]:
    """Yield the lines of one part; return its images per label, and their number."""
    head = f"{part}: " if part else ""
    labels: Counter[tuple[float, ...]] = Counter()
    sizes: list[int] = []
    recipes: dict[str, None] = {}
    for rec in shards:
        one = info(rec)
        labels += one.labels
        sizes += one.sizes
        recipes[_recipe(one.made)] = None
        bad = f", {one.made.bad} bad images skipped" if one.made and one.made.bad else ""
        yield (
            f"{head}{rec.name}: {len(one.sizes)} images of {len(one.labels)} labels, "
            f"{format_size(rec.stat().st_size)}{bad}"
        )
        yield Progress(step="reading headers", done=len(sizes))
    yield from (f"{head}recipe: {recipe}" for recipe in recipes)
    names = _class_names(path, labels)
    yield from (f"{head}{line}" for line in _spread(labels, sizes, names))
    if part:
        count = f"{len(sizes)} images of {len(labels)} labels in {len(shards)} shards"
        yield f"{head}{count}, {_size_of(shards)}"
    return labels, len(sizes)


def _spread(
    labels: Counter[tuple[float, ...]], sizes: list[int], names: Mapping[float, str]
) -> Iterator[str]:
    if not sizes:
        return
    yield f"bytes per image: {min(sizes)} to {max(sizes)}, median {median(sizes):.0f}"
    ranked = labels.most_common()
    (most, many), (least, few) = ranked[0], ranked[-1]
    shown = [
        "/".join(f"{value:g}" for value in label)
        + (f", {names[label[0]]}" if label and label[0] in names else "")
        for label in (least, most)
    ]
    yield f"images per label: {few} (label {shown[0]}) to {many} (label {shown[1]})"


def verify_all(shards: Sequence[Path], processes: int) -> Iterator[Progress | ShardContents]:
    """Verify shards in parallel; then raise DataError with a line per bad shard."""
    counts, wrong = [0] * len(shards), dict[int, str]()
    for number, rec in enumerate(shards):
        try:
            made = manifest.read(rec)
            if made and rec.is_file() and rec.stat().st_size:
                manifest.check_size(rec, made, fix="Copy it again, or move it away and repack it")
            counts[number] = count_records(rec)
        except DataError as error:
            wrong[number] = str(error)
    total, done, given = sum(counts), 0, 0
    yield Progress(step="verifying", done=0, total=total)
    with Pool(min(processes, len(shards)), "im2rec_tools.packing.verify") as pool:
        whole = [number for number in range(len(shards)) if number not in wrong]
        left = len(whole)
        while left:
            while given < len(whole) and pool.has_room:
                pool.give(VerifyTask(number=whole[given], rec=shards[whole[given]]))
                given += 1
            for checked in pool.answers(_WAIT_SECONDS):
                left -= 1
                if checked.problem:
                    wrong[checked.number] = checked.problem
                    done += counts[checked.number]
                else:
                    done += checked.contents.images
                    yield checked.contents
                counts[checked.number] = 0
            on = sum(min(at, counts[number]) for number, at in pool.positions if number >= 0)
            yield Progress(step="verifying", done=done + on, total=total)
    if wrong:
        more = (
            [f"{len(wrong)} of {len(shards)} shards failed verification:"]
            if len(shards) > 1
            else []
        )
        raise DataError(*more, *(wrong[number] for number in sorted(wrong)))


def plan_verify(path: Path, *, processes: int) -> Plan:
    """Plan to read every record of shards and compare it with the manifests."""
    parts = _parts(path)
    shards = [rec for found in parts.values() for rec in found]

    def work() -> Iterator[Update]:
        found = []
        for update in verify_all(shards, processes or len(os.sched_getaffinity(0))):
            if isinstance(update, Progress):
                yield update
            else:
                found.append(update)
                lacks = f", no {' and no '.join(update.missing)}" if update.missing else ""
                yield f"{update.path}: {update.images} images of {len(update.labels)} labels{lacks}"
        labels = {label for contents in found for label in contents.labels}
        names = _class_names(path, labels)
        for part, ours in parts.items():
            if part:
                yield _part_line(part, [one for one in found if one.path in ours])
        if names:
            yield f"{LABELS_FILE}: {len(names)} classes; every label has one"
        compared = "verified against the manifests"
        if any(one.missing for one in found):
            compared = "all complete; some have no index or manifest to compare"
        yield (
            f"{sum(one.images for one in found)} images of {len(labels)} labels in {len(found)} "
            f"shards, {_size_of(shards)}: {compared}"
        )

    says = (f"would verify {rec}, {format_size(rec.stat().st_size)}" for rec in shards)
    return Plan(says=says, work=work)


def _part_line(part: str, found: Sequence[ShardContents]) -> str:
    labels = {label for one in found for label in one.labels}
    images = sum(one.images for one in found)
    size = _size_of(one.path for one in found)
    return f"{part}: {images} images of {len(labels)} labels in {len(found)} shards, {size}"


def _shards(folder: Path, name: str) -> list[Path]:
    found = shard_sets(folder)
    chosen = name or ("train" if "train" in found or len(found) != 1 else next(iter(found)))
    if chosen not in found:
        names = ", ".join(found) or "none"
        raise DataError(
            error_line(
                folder, expected=f"shards named {chosen}-* or {chosen}_*.rec", got=f"{names}"
            )
        )
    return found[chosen]


def plan_shard(dir: Path, total: int, index: int, *, set: str) -> Plan:
    """Plan to link the share of worker `index` of `total` into a folder."""
    if index >= total:
        raise DataError(error_line("INDEX", expected=f"0 to {total - 1}", got=index))
    shards = _shards(dir, set)
    if len(shards) < total:
        raise DataError(
            error_line(
                dir,
                expected=f"at least {total} shards, one per worker",
                got=f"{len(shards)}",
                fix="Pack more shards: --train-shards N",
            )
        )
    mine = [shards[at] for at in even_runs(len(shards), total)[index]]
    files = [
        beside
        for shard in mine
        for beside in (
            [shard.with_suffix(end) for end in _BESIDE] if shard.suffix == ".rec" else [shard]
        )
        if beside.exists()
    ]
    folder = (dir / f"worker_{index}_of_{total}").absolute()
    links = {folder / file.name: file.absolute() for file in files}
    strange = sorted(
        one
        for one in (folder.iterdir() if folder.is_dir() else ())
        if one not in links or not (one.is_symlink() and one.readlink() == links[one])
    )
    if strange:
        raise DataError(
            error_line(strange[0], problem="not part of this share", fix="Move it away")
        )

    def work() -> Iterator[Update]:
        try:
            folder.mkdir(exist_ok=True)
            for link, file in links.items():
                if not link.is_symlink():
                    link.symlink_to(file)
        except OSError as error:
            raise DataError(
                error_line(folder, problem=f"cannot be written ({error.strerror})")
            ) from error
        yield Progress(step=f"linking {folder.name}", done=len(links), total=len(links))
        yield f"{len(mine)} of {len(shards)} shards, {mine[0].name} to {mine[-1].name}: {folder}"

    return Plan(says=(f"would link {link} -> {file}" for link, file in links.items()), work=work)


def plan_join_index(path: Path, index: Path) -> Plan:
    """Plan to write one index of several shards."""
    shards = record_files(path)
    if index.suffix != ".idx":
        raise DataError(
            error_line("INDEX", expected="a name that ends in .idx", got=quoted(str(index)))
        )

    def work() -> Iterator[Update]:
        found = list(_lines(shards))
        text = b"".join(line for line, _ in found)
        if not index.exists():
            with atomic_file(index) as file:
                file.write(text)
        elif not index.is_file() or index.read_bytes() != text:
            raise DataError(
                error_line(
                    index, problem="already exists", fix="Move it away, or choose another name"
                )
            )
        twice = len(found) - len({key for _, key in found})
        if twice:
            yield f"note: {twice} duplicate keys; readers by offset are not affected"
        yield ";".join(map(str, shards))
        yield f"{len(found)} records of {len(shards)} shards in {index}, in the order above"

    return Plan(says=[f"would write one index of {len(shards)} shards to {index}"], work=work)


def _lines(shards: list[Path]) -> Iterator[tuple[bytes, int]]:
    """Yield the index line and the key of each record, in the order of the shards."""
    before = 0
    for rec in shards:
        beside = rec.with_suffix(".idx")
        if not beside.is_file():
            raise DataError(
                error_line(
                    beside, problem="no such file", fix=f"{rec.name} needs its index: pack it again"
                )
            )
        offsets_of(rec)  # raises if the index is not of this file
        for key, offset in read_index(beside):
            yield f"{key}\t{before + offset}\n".encode(), key
        before += rec.stat().st_size
