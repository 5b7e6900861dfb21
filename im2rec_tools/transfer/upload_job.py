"""Upload of a folder's files to an object store, with files.tsv last."""

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from google_crc32c import extend

from im2rec_tools.errors import DataError, error_line
from im2rec_tools.files import format_size
from im2rec_tools.progress import Progress, Update
from im2rec_tools.transfer.file_list import LISTING, ListedFile, parse_listing, write_listing
from im2rec_tools.transfer.sources import MissingFileError, Sources, read_text
from im2rec_tools.transfer.threads import for_each
from im2rec_tools.transfer.urls import Url, safe_name

_MB = 10**6


def visible_files(folder: Path) -> list[str]:
    """Return the names of the files below a folder, without hidden ones and files.tsv.

    Raises DataError if there are none, or if a name cannot be listed.
    """
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    names = [name for name in found if not any(part[0] == "." for part in Path(name).parts)]
    names = [safe_name(name, str(folder)) for name in names if name != LISTING]
    if not names:
        fix = "Give a folder with files"
        raise DataError(error_line(folder, expected="files", got="none", fix=fix))
    return names


def upload(folder: Path, names: Sequence[str], url: Url, jobs: int) -> Iterator[Update]:
    """Upload these files of a folder, then the list of them.

    Skips files that the list at the URL has with the same checksum. Raises DataError.
    """
    done: dict[str, ListedFile] = {}
    sent: list[str] = []
    total = sum((folder / name).stat().st_size for name in names)
    with Sources() as sources:
        older = _older(url, sources)

        def send(name: str) -> None:
            listed = described(folder, name)
            if older.get(name) != listed or not _is_there(url.sibling(name), listed, sources):
                sources.of(url).put(folder / name, url.sibling(name))
                if not _is_there(url.sibling(name), listed, sources):
                    raise _other_size(url.sibling(name))
                sent.append(name)
            done[name] = listed

        for _ in for_each(send, names, min(jobs, len(names)), threading.Event()):
            size = sum(one.size or 0 for one in list(done.values()))
            yield Progress(step="uploading", done=size // _MB, total=-(-total // _MB), unit="MB")
        listing = write_listing(folder, list(done.values()))
        sources.of(url).put(listing, url.sibling(LISTING))
    yield f"{len(names)} files, {format_size(total)} at {url}: {len(sent)} uploaded"


def described(folder: Path, name: str) -> ListedFile:
    """Return size and CRC-32C of a file. Raises DataError if it cannot be read."""
    crc = size = 0
    try:
        with (folder / name).open("rb") as file:
            while data := file.read(1 << 20):
                crc, size = extend(crc, data), size + len(data)
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
        raise DataError(error_line(folder / name, problem=problem)) from error
    return ListedFile(name=name, size=size, digests={"crc32c": f"{crc:08x}"})


def _older(url: Url, sources: Sources) -> dict[str, ListedFile]:
    """Return the files of an earlier upload by name; none if it was not complete."""
    try:
        text = read_text(sources, url.sibling(LISTING))
    except MissingFileError:
        return {}
    return {one.name: one for one in parse_listing(text, str(url.sibling(LISTING)))}


def _is_there(url: Url, listed: ListedFile, sources: Sources) -> bool:
    try:
        return sources.describe(url).size == listed.size
    except MissingFileError:
        return False


def _other_size(url: Url) -> DataError:
    problem = "has another size after the upload"
    return DataError(error_line(url, problem=problem, fix="Upload it again"))
