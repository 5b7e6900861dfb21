"""Pythons of this machine."""

import os
import subprocess
from pathlib import Path


def pythons(oldest: int = 8) -> list[str]:
    """Return every Python from 3.`oldest` on this machine, one per minor version."""
    folders = [Path(folder) for folder in os.get_exec_path()]
    folders += Path("~/.pyenv/versions").expanduser().glob("*/bin")
    folders += Path("~/.local/share/uv/python").expanduser().glob("cpython-*/bin")
    found: dict[str, str] = {}
    asked = "import sys; print(*sys.version_info[:2])"
    for minor in range(oldest, 20):
        for path in [folder / f"python3.{minor}" for folder in folders]:
            if f"3 {minor}" not in found and path.is_file():
                command = [str(path), "-I", "-S", "-c", asked]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                found.setdefault(done.stdout.strip(), str(path))
    return [path for version, path in found.items() if version]
