"""The .rec files a job reads: which they are, how many images, and one index over all of them."""

from pathlib import Path

from bench.errors import SpecError
from im2rec_tools.errors import DataError
from im2rec_tools.recordio import count_records, read_index


def shards(data: str) -> tuple[Path, ...]:
    """The .rec files of `data`: one file, all in a folder, or several joined by ';'.

    Files of other kinds in the folder are left alone (given a folder, MXNet would read them too).
    """
    found: list[Path] = []
    for part in filter(None, data.split(";")):
        path = Path(part)
        found += sorted(path.glob("*.rec")) if path.is_dir() else [path]
    for path in found:
        if any(mark in str(path) for mark in "#?;"):
            raise SpecError(
                f"{path}: MXNet reads #, ? and ; in a path as something else; rename it"
            )
    if not found:
        raise SpecError(f"{data}: expected .rec files, found none; 'fab data.prepare' makes them")
    return tuple(found)


def count_images(paths: tuple[Path, ...]) -> int:
    """Images in all these files, each checked to be whole; SpecError names the one that is not."""
    try:
        return sum(count_records(path) for path in paths)
    except DataError as error:
        raise SpecError(str(error)) from error


def merged_index(paths: tuple[Path, ...]) -> str | None:
    """The text of one .idx over the files joined by ';', or None where a file has none.

    MXNet takes a single index file; over a list of files its offsets run on from file to file.
    """
    indexes = [path.with_suffix(".idx") for path in paths]
    if not all(index.is_file() for index in indexes):
        return None
    lines: list[str] = []
    base = 0
    for path, index in zip(paths, indexes, strict=True):
        lines += [f"{len(lines) + n}\t{base + at}" for n, (_, at) in enumerate(read_index(index))]
        base += path.stat().st_size
    return "\n".join(lines) + "\n"
