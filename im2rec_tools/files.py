"""Files that are there whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from im2rec_tools.errors import DataError


@contextmanager
def whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write, that takes its name when the block ends well and vanishes otherwise."""
    sibling = path.with_name(f".{path.name}.part")  # one that was left over is written anew
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with sibling.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        sibling.replace(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})") from error
    finally:
        sibling.unlink(missing_ok=True)


def write_whole(path: Path, text: str) -> None:
    """Writes a text file whole."""
    with whole(path) as file:
        file.write(text.encode(errors="backslashreplace"))
