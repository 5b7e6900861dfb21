"""The launcher (`python -m launch.launch`) as tests start it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from launch.hosts import ROOT


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
