"""Command `join-index`: one index for several shards, for readers of one file."""

from collections.abc import Iterator
from pathlib import Path

from im2rec_tools.cli import Command, Option, path
from im2rec_tools.errors import DataError, quoted
from im2rec_tools.files import atomic_file
from im2rec_tools.formats.recordio import offsets_of, read_index
from im2rec_tools.formats.tree import record_files
from im2rec_tools.progress import Plan, Update


def _plan(path: Path, index: Path) -> Plan:
    shards = record_files(path)
    if index.suffix != ".idx":
        raise DataError(f"INDEX: expected a name that ends in .idx, got {quoted(str(index))}")

    def work() -> Iterator[Update]:
        found = list(_lines(shards))
        text = b"".join(line for line, _ in found)
        if not index.exists():
            with atomic_file(index) as file:
                file.write(text)
        elif not index.is_file() or index.read_bytes() != text:
            raise DataError(f"{index}: is there already; move it away, or choose another name")
        twice = len(found) - len({key for _, key in found})
        if twice:
            yield f"note: {twice} keys occur again; readers by offset do not mind"
        yield ";".join(map(str, shards))
        yield f"{len(found)} records of {len(shards)} shards in {index}, in the order above"

    return Plan(says=[f"would write one index of {len(shards)} shards to {index}"], work=work)


def _lines(shards: list[Path]) -> Iterator[tuple[bytes, int]]:
    """Each record's line and key: its offset is that in its shard, after all shards before it."""
    before = 0
    for rec in shards:
        beside = rec.with_suffix(".idx")
        if not beside.is_file():
            raise DataError(f"{beside}: no such file; expected the index of {rec.name}")
        offsets_of(rec)  # that the two belong together
        for key, offset in read_index(beside):
            yield f"{key}\t{before + offset}\n".encode(), key
        before += rec.stat().st_size


COMMAND = Command(
    name="join-index",
    help="Writes one index for several shards, for readers that take one (DALI, path_imgidx).",
    options=(
        Option(name="path", help="a .rec, or a folder of them", parse=path),
        Option(name="index", help="file to write: all.idx", parse=path),
    ),
    plan=_plan,
)
