"""The .rec files of a job: paths, number of images, position of each image."""

from collections import Counter
from pathlib import Path
from typing import Any

from bench.errors import SpecError, brief, error_line, quoted
from im2rec_tools.errors import DataError
from im2rec_tools.formats.recordio import offsets_of
from im2rec_tools.formats.tree import lost_record_file, prepared_parts

LIST = ".txt"
_BESIDE = (".idx", ".lst", ".json")


def split_data(data: str) -> tuple[Path, ...]:
    """Split `data` at ';' into files and folders; a .txt file stands for its lines."""
    found: list[Path] = []
    for part in filter(None, data.split(";")):
        path = _path(part)
        found += _lines(path) if path.suffix == LIST and not path.is_dir() else [path]
    return tuple(found)


def _lines(path: Path) -> list[Path]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise SpecError(
            error_line(
                path,
                expected=f"a list of .rec files, one path per line ({reason})",
            )
        ) from error
    return [_path(line.strip()) for line in lines if line.strip()]


def _path(text: str) -> Path:
    """Return the path; SpecError if it is invalid or not accessible."""
    try:
        Path(text).stat()
    except FileNotFoundError:
        pass  # reported when the file is read
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SpecError(
            error_line(
                f"{brief(text)!r}",
                problem=f"expected a path of data; cannot be read ({quoted(reason)})",
                fix="Check the path, and that you may read it",
            )
        ) from error
    return Path(text)


def _of_folder(folder: Path) -> list[Path]:
    """Return the .rec files of a folder; SpecError if one is missing beside its index."""
    found = sorted(folder.glob("*.rec"))
    if found and (lost := lost_record_file(folder)):
        raise SpecError(lost)
    return found


def shards(data: str) -> tuple[Path, ...]:
    """Return the .rec files of `data`.

    `data` is a file, a folder, several of them joined by ';', or a .txt list. Other files in a
    folder are ignored. Raises SpecError if there are none, if one is missing beside its index, or
    if a file occurs twice, because its images would count twice.
    """
    found: list[Path] = []
    for path in split_data(data):
        if path.suffix in _BESIDE:
            raise SpecError(
                error_line(
                    path,
                    expected="a .rec file",
                    got="a file without images",
                    fix="Give the .rec file",
                )
            )
        found += _of_folder(path) if path.is_dir() else [path]
    if not found:
        parts = prepared_parts(Path(data))
        if parts:
            raise SpecError(
                error_line(
                    data,
                    expected=".rec files",
                    got=f"a prepared folder ({', '.join(parts)})",
                    fix=f"Give {' or '.join(map(str, parts.values()))}",
                )
            )
        raise SpecError(
            error_line(
                data, expected=".rec files", got="none", fix="Create them by 'fab data.prepare'"
            )
        )
    for path in found:
        if not path.is_file():
            found_there = "no regular file" if path.exists() else "no such file"
            raise SpecError(
                error_line(
                    path,
                    expected="a .rec file",
                    got=found_there,
                    fix="Create it by 'fab data.prepare'",
                )
            )
        try:
            path.open("rb").close()
        except OSError as error:
            raise SpecError(
                error_line(
                    path,
                    problem=f"cannot be read ({error.strerror})",
                    fix="Check the path, and that you may read it",
                )
            ) from error
    twice = [path for path, count in Counter(path.resolve() for path in found).items() if count > 1]
    if twice:
        raise SpecError(
            error_line(data, expected="each file once", got=f"{twice[0]} more than once")
        )
    return tuple(found)


def count_images(paths: tuple[Path, ...]) -> int:
    """Count the images in these files; SpecError for a truncated file."""
    return sum(len(_offsets(path)) for path in paths)


def places(paths: tuple[Path, ...]) -> Any:
    """Return each image's file index, offset and length as int64 of shape (images, 3)."""
    import numpy as np  # noqa: PLC0415 - rarely needed

    tables = []
    for number, path in enumerate(paths):
        offsets = np.array(_offsets(path), np.int64)
        lengths = np.diff(offsets, append=path.stat().st_size)
        tables.append(np.stack([np.full_like(offsets, number), offsets, lengths], axis=1))
    return np.concatenate(tables)


def _offsets(path: Path) -> list[int]:
    try:
        return offsets_of(path)
    except DataError as error:
        raise SpecError(str(error)) from error
