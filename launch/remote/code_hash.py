"""The hash over the code that decides a number: the same on every host of a measurement.

Standard library only and Python 3.8 or newer: it is sent to hosts.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import errno
import hashlib
import os
import stat

TYPE_CHECKING = False  # as in launch/remote/lease.py
if TYPE_CHECKING:
    from pathlib import Path

_FOLDERS, _FILES = ("bench", "launch"), ("im2rec_tools/formats/recordio.py", "requirements.lock")


def code_hash(root: Path | str) -> str:
    """Twelve hex digits over every file of a checkout that decides a number.

    Raises OSError for a file or folder that cannot be read, whose absence would be another code.
    """
    digest = hashlib.sha256()
    names = [name for folder in _FOLDERS for name in _below(str(root), folder)]
    names += [name for name in _FILES if os.path.exists(os.path.join(root, name))]  # noqa: PTH110,PTH118
    for name in sorted(names, key=lambda name: name.split("/")):
        path = os.path.join(root, name)  # noqa: PTH118
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - a pipe would hold us for ever
            raise OSError(errno.EINVAL, "it is no regular file", path)
        with open(path, "rb") as file:  # noqa: PTH123
            digest.update(name.encode() + b"\0" + file.read())
    return digest.hexdigest()[:12]


def _below(root: str, folder: str) -> list[str]:
    """The modules below a folder, relative to the root; OSError if some cannot be listed."""
    found = []
    for path, _, names in os.walk(os.path.join(root, folder), onerror=_fail):  # noqa: PTH118
        at = os.path.relpath(path, root)
        found += [f"{at}/{name}" for name in names if name.endswith(".py")]
    return found


def _fail(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # a checkout that is none has no such folder
        raise error
