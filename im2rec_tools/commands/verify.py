"""Command `verify`: shards read back and compared with what was packed."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from im2rec_tools.cli import Command, Option, integer, path
from im2rec_tools.errors import DataError
from im2rec_tools.files import format_size
from im2rec_tools.formats.recordio import count_records
from im2rec_tools.formats.tree import record_files
from im2rec_tools.packing.pool import Pool
from im2rec_tools.packing.verify import ShardContents, VerifyTask
from im2rec_tools.progress import Plan, Progress, Update

_WAIT_SECONDS = 0.2


def verify_all(shards: Sequence[Path], processes: int) -> Iterator[Progress | ShardContents]:
    """Checks shards, several at a time; DataError, after all of them, that names each wrong one."""
    counts, wrong = [0] * len(shards), dict[int, str]()
    for number, rec in enumerate(shards):
        try:
            counts[number] = count_records(rec)
        except DataError as error:
            wrong[number] = str(error)
    total, done, given = sum(counts), 0, 0
    yield Progress(step="reading back", done=0, total=total)
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
            yield Progress(step="reading back", done=done + on, total=total)
    if wrong:
        more = [f"{len(wrong)} of {len(shards)} shards are wrong:"] if len(shards) > 1 else []
        raise DataError(*more, *(wrong[number] for number in sorted(wrong)))


def _plan(path: Path, *, processes: int) -> Plan:
    shards = record_files(path)

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
        compared = "all as they were packed"
        if any(one.missing for one in found):
            compared = "all whole; nothing to compare some of them with"
        yield (
            f"{sum(one.images for one in found)} images of {len(labels)} labels in {len(found)} "
            f"shards, {format_size(sum(rec.stat().st_size for rec in shards))}: {compared}"
        )

    says = (f"would read back {rec}, {format_size(rec.stat().st_size)}" for rec in shards)
    return Plan(says=says, work=work)


COMMAND = Command(
    name="verify",
    help="Reads shards back: framing, index, counts, every image decoded, labels, checksums.",
    options=(
        Option(name="path", help="a .rec, or a folder of them", parse=path),
        Option(name="processes", help="0: one a core", default="0", parse=integer(0, 4096)),
    ),
    plan=_plan,
)
