"""The hash over the code that decides a number: the same on every host of a measurement.

Standard library only and Python 3.8 or newer: it is sent to hosts.
"""

from __future__ import annotations  # the syntax of the types below, on Python 3.8

import hashlib
import os
from pathlib import Path

_MEASURING = ("bench/**/*.py", "launch/**/*.py", "im2rec_tools/recordio.py", "requirements.lock")


def code_hash(root: Path) -> str:
    """Twelve hex digits over every file of a checkout that decides a number.

    Raises OSError for a file or folder that cannot be read, whose absence would be another code.
    """
    digest = hashlib.sha256()
    for folder in {pattern.split("/")[0] for pattern in _MEASURING if "**" in pattern}:
        _check_readable(root / folder)
    files = {file for pattern in _MEASURING for file in root.glob(pattern)}
    for file in sorted(files):
        digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def _check_readable(folder: Path) -> None:
    """Raises OSError for a folder that cannot be listed, which glob takes for an empty one."""

    def fail(error: OSError) -> None:
        raise error

    if folder.is_dir():
        for _ in os.walk(folder, onerror=fail):
            pass
