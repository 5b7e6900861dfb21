"""Takes a run away, and nothing that is not of a run."""

from contextlib import closing
from pathlib import Path

from im2rec_tools import files
from results.catalogue import is_run
from results.errors import StoreError
from results.store import TORN, check_name, held

_FOLDERS = {"logs", "report"}
_FILES = {".lock"}
_SUFFIXES = {".json", ".jsonl", ".toml", ".md", ".csv", TORN, ".part"}
# While one of these is there, it is a run and can be removed; an empty folder can be, too.
_LAST = ("asked.json", "records.jsonl", ".lock")


def check_removable(folder: Path) -> None:
    """Raises StoreError unless the folder is a run, and holds nothing else."""
    if ".." in folder.parts or not folder.name:
        raise StoreError(f"{folder}: expected the name of a run, or a path to one without '..'")
    if folder.is_symlink():
        raise StoreError(f"{folder}: is a link to {folder.resolve()}; name the run itself")
    if not folder.is_dir():
        raise StoreError(f"{folder}: no such run; 'fab results.list' names those there are")
    check_name(folder)
    if not is_run(folder) and not _is_nearly_gone(folder):
        raise StoreError(
            f"{folder}: is no run: it has neither records.jsonl nor asked.json; nothing is removed"
        )
    strangers = sorted(path.name for path in folder.iterdir() if not _is_ours(path))
    if strangers:
        more = f" and {len(strangers) - 1} more" if len(strangers) > 1 else ""
        raise StoreError(
            f"{folder}: holds {strangers[0]!r}{more}, which no run has; move that elsewhere first"
        )


def _is_ours(path: Path) -> bool:
    if path.is_symlink():
        return True  # of a link only the link is removed
    if path.is_dir():
        return path.name in _FOLDERS
    return path.name in _FILES or path.suffix in _SUFFIXES


def _is_nearly_gone(folder: Path) -> bool:
    """Whether nothing is left of what was there, as where its removal was ended."""
    return all(path.name == ".lock" for path in folder.iterdir())


def remove(folder: Path) -> None:
    """Removes a run; links in it are removed, and not what they lead to.

    Raises StoreError where it is no run, a sweep is writing there or it cannot be removed.
    """
    check_removable(folder)
    try:
        with closing(held(folder / ".lock")):
            rest = [path for path in folder.iterdir() if path.name not in _LAST]
            for path in (*rest, *(folder / name for name in _LAST)):
                files.remove(path)
            folder.rmdir()
    except OSError as error:
        raise StoreError(f"{folder}: cannot be removed ({error.strerror})") from error
