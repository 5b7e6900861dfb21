"""Gzip-compressed tars: decompressed to a temporary file, up to a limit."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from im2rec_tools.errors import DamagedTarError, DataError, brief, error_line
from im2rec_tools.files import check_space, create, format_size, lock, part_of, remove
from im2rec_tools.progress import Progress, Update

_MAGIC = b"\x1f\x8b"
_BLOCK = 1 << 22
# A tar that decompresses to more than both is rejected; one of XML files has a ratio of 30.
MOST_RATIO, MOST_BYTES = 200, 100 * 10**6


def uncompressed_name(tar: Path) -> Path:
    """Return the path of a tar without its extensions: DIR/a for DIR/a.tar.gz."""
    return (tar.with_suffix("") if tar.suffix.lower() == ".gz" else tar).with_suffix("")


def is_gzip(path: Path) -> bool:
    """Return whether a file is gzip-compressed; False if it cannot be read."""
    with suppress(OSError):
        if path.is_file():  # opening a named pipe would block
            with path.open("rb") as file:
                return file.read(len(_MAGIC)) == _MAGIC
    return False


def with_plain_tar(
    tar: Path, scratch: Path, work: Callable[[Path], Iterator[Update]]
) -> Iterator[Update]:
    """Work on a tar; on a decompressed copy in `scratch` if it is gzip-compressed.

    The copy has the tar's name, in a hidden folder that is removed at the end. Raises
    DamagedTarError for damage, DataError above the limit or if the disk is full.
    """
    if not is_gzip(tar):
        yield from work(tar)
        return
    folder = part_of(scratch / tar.name)
    is_new = not scratch.exists()
    try:
        with lock(folder):
            try:
                yield from _decompress(tar, folder / tar.name)
                yield from work(folder / tar.name)
            finally:
                remove(folder)
    finally:
        if is_new:
            with suppress(OSError):  # it has files now
                scratch.rmdir()


def _decompress(tar: Path, plain: Path) -> Iterator[Progress]:
    size, done = tar.stat().st_size, 0
    check_space(plain.parent, size, "Decompress the tar on another disk: gunzip")
    try:
        with tar.open("rb") as raw, gzip.GzipFile(fileobj=raw) as given, create(plain) as file:
            while data := given.read(_BLOCK):
                done += len(data)
                if done > max(MOST_BYTES, MOST_RATIO * size):
                    raise DataError(
                        error_line(
                            tar,
                            expected=f"at most {MOST_RATIO} times its size when decompressed",
                            got=f"more than {format_size(done)} from {format_size(size)}",
                            fix="If you trust it, decompress it with gunzip",
                        )
                    )
                file.write(data)
                yield Progress(step="decompressing", done=0, fraction=min(1.0, raw.tell() / size))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        problem = f"damaged or truncated gzip file ({brief(error)})"
        raise DamagedTarError(error_line(tar, problem=problem, fix="Get it again")) from error
    except OSError as error:
        problem = f"cannot be decompressed in {plain.parent.parent} ({error.strerror or error})"
        fix = "Free disk space there, or decompress the tar on another disk: gunzip"
        raise DataError(error_line(tar, problem=problem, fix=fix)) from error
