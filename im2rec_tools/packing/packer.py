"""Packer: sends blocks of images to encoder processes and orders their writes."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO

from im2rec_tools.errors import DataError, error_line, quoted
from im2rec_tools.files import check_space, create, digest, flush_folder, part_of, tsv_line
from im2rec_tools.formats import lists
from im2rec_tools.formats.crc32c import join
from im2rec_tools.formats.lists import Entry
from im2rec_tools.formats.recipe import Recipe
from im2rec_tools.packing import manifest
from im2rec_tools.packing.pool import Pool
from im2rec_tools.progress import Progress

_IMAGES_PER_BLOCK = 16
_RAW_PER_BLOCK = 4  # images stored as pixels: blocks are kept in memory
_BLOCKS_AHEAD = 3  # per process, beyond the first block that is not written
_ESTIMATES = (1, 256)  # images after which the disk space for all is estimated
_WAIT_SECONDS = 0.2
_MODULE = "im2rec_tools.packing.encoder"


@dataclass(frozen=True, kw_only=True)
class PackJob:
    """Lists to pack, and the settings.

    source   folder of the images, or a tar
    folder   folder of the shards
    place    returns offset and size in the tar for an image's path
    refused  members of the tar that are not packed, with the reason
    """

    lists: Sequence[Path]
    source: Path
    folder: Path
    recipe: Recipe
    processes: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    place: Callable[[str], tuple[int, int]] | None = None
    refused: Mapping[str, str] = field(default_factory=dict)


def shard_of(lst: Path, folder: Path) -> Path:
    """Return the path of a list's .rec file."""
    return folder / f"{lst.stem}.rec"


def bad_images_path(rec: Path) -> Path:
    """Return the path of the list of a shard's bad images."""
    return rec.with_suffix(".bad.tsv")


def refused_path(work: PackJob) -> Path:
    """Return the path of the list of a tar's rejected members."""
    return work.folder / f"{work.source.name}.bad.tsv"


def missing_shards(work: PackJob) -> list[Path]:
    """Return the lists without a shard.

    Raises DataError for a shard made from another list or with another recipe.
    """
    return [lst for lst in work.lists if not _is_packed(lst, work)]


def _is_packed(lst: Path, work: PackJob) -> bool:
    rec = shard_of(lst, work.folder)
    made = manifest.read(rec)
    if not rec.exists():
        if made is None and rec.with_suffix(".idx").exists():
            raise DataError(
                error_line(rec.with_suffix(".idx"), problem="already exists", fix="Move it away")
            )
        return False
    if made is None:
        raise DataError(
            error_line(rec, problem="already exists, without a manifest", fix="Move it away")
        )
    manifest.check_size(rec, made, fix="Move it away and repeat the command")
    differs = [
        f"{name} {quoted(made.recipe.get(name))}, now {quoted(value)}"
        for name, value in asdict(work.recipe).items()
        if made.recipe.get(name) != value
    ]
    if made.list_sha256 != digest(lst):
        differs.append("the list changed")
    if differs:
        raise DataError(
            error_line(
                rec,
                problem=f"packed with other settings ({'; '.join(differs)})",
                fix="Pack into another folder, or move all shards of this one away and pack all "
                "lists again",
            )
        )
    return True


@dataclass(frozen=True, kw_only=True)
class Block:
    """Message: encode these images.

    places: offset and size of each image if the source is a tar.
    """

    number: int
    entries: tuple[Entry, ...]
    places: tuple[tuple[int, int], ...] = ()

    def where(self, at: int) -> str:
        """Return the path of the n-th image of the block."""
        return self.entries[at].path


@dataclass(frozen=True, kw_only=True)
class EncodedBlock:
    """Answer: a block's records and bad images.

    index: key and offset of each record, from the start of the block.
    """

    number: int
    length: int
    crc32c: int
    index: tuple[tuple[int, int], ...]
    records_crc32c: tuple[int, ...]
    bad: tuple[tuple[Entry, str], ...]


@dataclass(frozen=True, kw_only=True)
class Write:
    """Message: write an encoded block to this file at this offset."""

    number: int
    path: Path
    offset: int


@dataclass(frozen=True, kw_only=True)
class Sync:
    """Message: sync a file to disk."""

    path: Path


@dataclass(frozen=True, kw_only=True)
class WriteResult:
    """Answer to `Write` or `Sync`; `problem` is the reason of a failure."""

    asked: Write | Sync
    problem: str = ""


Message = Block | Write | Sync
Answer = EncodedBlock | WriteResult


@dataclass(kw_only=True)
class _Shard:
    """A shard in progress."""

    lst: Path
    rec: Path
    total: int
    index: IO[bytes]
    bad_list: IO[bytes]
    seen: int = 0
    unwritten: int = 0
    first_bad: str = ""
    written: manifest.WrittenBytes = field(default_factory=manifest.WrittenBytes)

    @property
    def parts(self) -> dict[Path, Path]:
        """Temporary and final names of its files; the .rec is last."""
        names = (self.rec.with_suffix(".idx"), bad_images_path(self.rec), self.rec)
        return {part_of(name): name for name in names}


def pack_shards(
    work: PackJob, paths: Sequence[Path], totals: dict[Path, int]
) -> Iterator[Progress]:
    """Pack lists into NAME.rec, NAME.idx, NAME.json and NAME.bad.tsv.

    totals: number of images of each list. Bad images are skipped and listed. Raises DataError if
    a shard has no good image, the disk is full or an encoder process dies. Finished shards stay.
    """
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(Pool(work.processes, _MODULE, work.source, work.recipe))
        line = _Pipeline(work, pool, sum(totals[lst] for lst in paths))
        stack.callback(line.forget)
        feed = _blocks(work, paths)
        waiting = next(feed, None)
        while waiting or line.outstanding:
            while waiting and pool.has_room and line.has_room:
                lst, block = waiting
                line.give(lst, totals[lst], block)
                waiting = next(feed, None)
            for answer in pool.answers(_WAIT_SECONDS):
                line.take(answer)
            yield line.progress
        line.check_end()


def _blocks(work: PackJob, paths: Sequence[Path]) -> Iterator[tuple[Path, Block]]:
    size = _RAW_PER_BLOCK if work.recipe.encoding == "raw" else _IMAGES_PER_BLOCK
    number = 0
    for lst in paths:
        entries = lists.read(lst)
        while block := tuple(islice(entries, size)):
            places = tuple(work.place(entry.path) for entry in block) if work.place else ()
            yield lst, Block(number=number, entries=block, places=places)
            number += 1


class _Pipeline:
    """Blocks in progress: encoded in any order, written in order."""

    def __init__(self, work: PackJob, pool: Pool, total: int) -> None:
        self._work, self._pool, self._total = work, pool, total
        self._shards: list[_Shard] = []
        self._owners: dict[int, tuple[_Shard, int]] = {}
        self._encoded: dict[int, EncodedBlock] = {}
        self._next = 0
        self._bytes = self._done = self._bad = 0
        self._estimates = list(_ESTIMATES)
        self.outstanding = 0

    @property
    def progress(self) -> Progress:
        """Number of images written or skipped."""
        return Progress(step="packing", done=self._done, total=self._total, bad=self._bad)

    @property
    def has_room(self) -> bool:
        """Whether memory allows another block."""
        return self.outstanding < _BLOCKS_AHEAD * self._work.processes

    def give(self, lst: Path, total: int, block: Block) -> None:
        """Send a block of a list to an encoder process."""
        if not self._shards or self._shards[-1].lst != lst:
            self._shards.append(self._begun(lst, total))
        shard = self._shards[-1]
        shard.unwritten += 1
        self._owners[block.number] = (shard, len(block.entries))
        self.outstanding += 1
        self._pool.give(block)

    def _begun(self, lst: Path, total: int) -> _Shard:
        rec = shard_of(lst, self._work.folder)
        with _as_data_error(rec), contextlib.ExitStack() as undone:
            rec.parent.mkdir(parents=True, exist_ok=True)
            files = []
            for name in (rec, rec.with_suffix(".idx"), bad_images_path(rec)):
                files.append(create(part_of(name)))
                undone.callback(part_of(name).unlink)
                undone.callback(files[-1].close)
            undone.pop_all()
        empty, index, bad_list = files
        empty.close()
        return _Shard(lst=lst, rec=rec, total=total, index=index, bad_list=bad_list)

    def take(self, answer: Answer) -> None:
        """Process an answer of an encoder process."""
        if isinstance(answer, EncodedBlock):
            self._encoded[answer.number] = answer
            while self._next in self._encoded:
                self._commit(self._encoded.pop(self._next))
                self._next += 1
        elif answer.problem:
            raise DataError(
                error_line(answer.asked.path, problem=f"cannot be written ({answer.problem})")
            )
        else:
            self._go_on(answer)

    def _commit(self, block: EncodedBlock) -> None:
        shard, count = self._owners[block.number]
        self._check_space(block, count)
        written = shard.written
        place = Write(number=block.number, path=part_of(shard.rec), offset=written.size)
        self._pool.give_same(block.number, place)
        lines = (f"{key}\t{written.size + offset}\n" for key, offset in block.index)
        written.records += (f"{crc:08x}" for crc in block.records_crc32c)
        with _as_data_error(shard.rec):
            shard.index.write("".join(lines).encode())
            for entry, why in block.bad:
                shard.bad_list.write(
                    tsv_line(entry.index, entry.path, why).encode(errors="replace")
                )
                shard.first_bad = shard.first_bad or f"{entry.path}: {why}"
        written.crc32c = join(written.crc32c, block.crc32c, block.length)
        written.size += block.length
        shard.seen += count
        self._bytes += block.length
        self._done += count
        self._bad += len(block.bad)

    def _check_space(self, block: EncodedBlock, count: int) -> None:
        """Raise DataError if the images left will not fit, judging by those so far."""
        done, size = self._done + count, self._bytes + block.length
        if self._estimates and done >= self._estimates[0]:
            self._estimates.pop(0)
            needed = size * self._total // done - self._bytes
            check_space(self._work.folder, needed, "Pack into a folder on another disk")

    def _go_on(self, answer: WriteResult) -> None:
        shard = next(one for one in self._shards if part_of(one.rec) == answer.asked.path)
        if isinstance(answer.asked, Sync):
            self._finish(shard)
            self._shards.remove(shard)
            self.outstanding -= 1
            return
        shard.unwritten -= 1
        self._owners.pop(answer.asked.number)
        self.outstanding -= 1
        if shard.seen == shard.total and not shard.unwritten:
            self.outstanding += 1
            self._pool.give_any(Sync(path=part_of(shard.rec)))

    def _finish(self, shard: _Shard) -> None:
        if not shard.written.records:
            raise DataError(
                error_line(
                    shard.lst,
                    expected="readable images",
                    got="none",
                    problem=f"the first: {shard.first_bad}",
                    fix="Check ROOT",
                )
            )
        bad = shard.total - len(shard.written.records)
        manifest.write(shard.rec, shard.lst, asdict(self._work.recipe), shard.written, bad)
        with _as_data_error(shard.rec):
            for file in (shard.index, shard.bad_list):
                file.flush()
                os.fsync(file.fileno())
                file.close()
            if not bad:  # an earlier attempt may have listed images of this shard
                part_of(bad_images_path(shard.rec)).unlink()
                bad_images_path(shard.rec).unlink(missing_ok=True)
            for part, name in shard.parts.items():
                if bad or name != bad_images_path(shard.rec):
                    part.replace(name)
            flush_folder(shard.rec.parent)

    def check_end(self) -> None:
        """Raise DataError if a shard is incomplete: its list changed during packing."""
        for shard in self._shards:
            raise DataError(
                error_line(
                    shard.lst,
                    expected=f"{shard.total} images",
                    got=shard.seen,
                    problem="the list changed during packing",
                    fix="Run the command again",
                )
            )

    def forget(self) -> None:
        """Remove incomplete files."""
        for shard in self._shards:
            for file in (shard.index, shard.bad_list):
                with contextlib.suppress(OSError):  # a full disk, already reported
                    file.close()
            for part in shard.parts:
                part.unlink(missing_ok=True)


@contextlib.contextmanager
def _as_data_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            error_line(path, problem=f"cannot be written ({error.strerror})")
        ) from error
