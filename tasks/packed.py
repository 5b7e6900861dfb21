"""Runs that are read from where they lie: a folder, or a .zip that is unpacked for as long."""

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def is_packed(name: str) -> bool:
    """Whether what --run was given is a .zip."""
    from results.archive import SUFFIX

    return name.endswith(SUFFIX)


def unpacked(archive: Path) -> Path:
    """The run of a .zip, in a folder of its own that goes when the program ends."""
    from results.archive import unpack

    folder = tempfile.mkdtemp(prefix="mxscale-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return unpack(archive, Path(folder))


@contextmanager
def report_beside(archive: Path, folder: Path) -> Iterator[None]:
    """Has the report of a packed run written beside its .zip: demo.zip, demo-report/."""
    beside = archive.absolute().with_name(f"{archive.stem}-report")
    beside.mkdir(exist_ok=True)
    shutil.rmtree(folder / "report", ignore_errors=True)
    (folder / "report").symlink_to(beside)
    yield
