"""Tasks from the command line: sweep files, errors and exit codes."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context
from invoke.exceptions import Exit

from tests.support.paths import ROOT

FAB = Path(sys.executable).parent / "fab"
SWEEP = """
engine = "fake"
repeats = 1
network = "tiny"
batch_per_device = 4
windows = 3
precision = 0.0
"""
POINT = "[[points]]\nkvstore = 'dist_sync'\ndevices = [1, 2]\n"


def fab(*words: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [FAB, *words], cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False
    )


def refusal(task: Any, *args: Any, **options: Any) -> tuple[int, str]:
    """Return the exit code and the message of a task."""
    with pytest.raises(Exit) as caught:
        task.body(Context(), *args, **options)
    assert "\n" not in str(caught.value)
    return caught.value.code, str(caught.value)


def sweep_file(folder: Path, text: str = SWEEP + POINT) -> str:
    path = folder / "mine.toml"
    path.write_text(text)
    return str(path)
