"""The launcher (`python -m launch.launch`) as tests start it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from launch.hosts import ROOT
from tests.support.programs.jobs import left_over


@contextmanager
def launching(*words: str, folder: Path = ROOT) -> Iterator[subprocess.Popen[str]]:
    """Run the launcher with these words."""
    with subprocess.Popen(
        [sys.executable, "-m", "launch.launch", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as launcher:
        try:
            yield launcher
        finally:
            launcher.kill()


def ended(launcher: subprocess.Popen[str], seconds: float) -> tuple[int, list[str], str]:
    """Wait for its end; return exit code, lines of stdout, and stderr."""
    output, said = launcher.communicate(timeout=seconds)
    return launcher.returncode, output.splitlines(), said


def launching_here(folder: Path, *words: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """Run the launcher on this machine."""
    return launching("--launcher", "local", *words, folder=folder)


def launched_here(folder: Path, *words: str) -> tuple[int, list[str], str]:
    """Return its exit code and output on this machine; no process may remain."""
    with launching_here(folder, *words) as launcher:
        found = ended(launcher, 60)
    assert left_over() == []
    return found
