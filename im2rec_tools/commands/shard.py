"""Command `shard`: links to the shards that are one worker's share."""

from collections.abc import Iterator
from pathlib import Path

from im2rec_tools.cli import Command, Option, integer, path
from im2rec_tools.errors import DataError
from im2rec_tools.formats.lists import even_runs
from im2rec_tools.formats.tree import shard_sets
from im2rec_tools.progress import Plan, Progress, Update

_BESIDE = (".rec", ".idx", ".json", ".bad.tsv")


def worker_shards(shards: list[Path], total: int, index: int) -> list[Path]:
    """The run of shards that belongs to worker `index` of `total`; runs differ by one at most."""
    return [shards[at] for at in even_runs(len(shards), total)[index]]


def _shards(folder: Path, name: str) -> list[Path]:
    found = shard_sets(folder)
    chosen = name or ("train" if "train" in found or len(found) != 1 else next(iter(found)))
    if chosen not in found:
        names = ", ".join(found) or "none"
        raise DataError(
            f"{folder}: expected shards named {chosen}-* or {chosen}_*.rec, found {names}"
        )
    return found[chosen]


def _plan(dir: Path, total: int, index: int, *, set: str) -> Plan:
    if index >= total:
        raise DataError(f"INDEX: expected 0 to {total - 1}, got {index}")
    shards = _shards(dir, set)
    if len(shards) < total:
        raise DataError(f"{dir}: {len(shards)} shards cannot feed {total} workers")
    mine = worker_shards(shards, total, index)
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
        one for one in _present(folder) if one not in links or not _leads(one, links[one])
    )
    if strange:
        raise DataError(f"{strange[0]}: is not of this share; move it away")

    def work() -> Iterator[Update]:
        try:
            folder.mkdir(exist_ok=True)
            for link, file in links.items():
                if not link.is_symlink():
                    link.symlink_to(file)
        except OSError as error:
            raise DataError(f"{folder}: cannot be written ({error.strerror})") from error
        yield Progress(step=f"linking {folder.name}", done=len(links), total=len(links))
        yield f"{len(mine)} of {len(shards)} shards, {mine[0].name} to {mine[-1].name}: {folder}"

    return Plan(says=(f"would link {link} -> {file}" for link, file in links.items()), work=work)


def _present(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _leads(link: Path, file: Path) -> bool:
    return link.is_symlink() and link.readlink() == file


COMMAND = Command(
    name="shard",
    help="Links worker INDEX's share of DIR's shards into DIR/worker_INDEX_of_TOTAL.",
    options=(
        Option(name="dir", help="folder of shards: .rec, or NAME-00000-of-01024", parse=path),
        Option(name="total", help="number of workers", parse=integer(1)),
        Option(name="index", help="of the worker, from 0", parse=integer(0)),
        Option(name="set", help="name of the shards, where there are several: train", default=""),
    ),
    plan=_plan,
)
