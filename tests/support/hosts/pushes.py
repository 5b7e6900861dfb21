"""Folders to push, and the folder of a host that receives them."""

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from launch.hosts import Host, this_machine
from launch.push import Piece, PushProgress, in_tree, push
from launch.transport.line import start_local
from tests.support.paths import ROOT

MB = 1 << 20


def on_a_disk_of_its_own(script: str, disk: Path) -> list[str]:
    """Return a shell script's output; `disk` is a file system of its own namespace."""
    disk.mkdir()
    mount = f"mount -t tmpfs -o size=16k none {disk}"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], check=False).returncode:
        pytest.skip("needs root to mount a file system")
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{mount} && {script}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout.splitlines()


def host(folder: Path, name: str = "node01") -> Host:
    return replace(this_machine(), name=name, tree=str(folder))


def tree_of(root: Path) -> list[Piece]:
    found = [path for path in root.rglob("*") if path.is_symlink() or path.is_file()]
    return [in_tree(root, str(path.relative_to(root))) for path in found]


def pushed(pieces: Sequence[Piece], folder: Path, *, exact: bool = False) -> PushProgress:
    """Push into FOLDER/x and return the last message."""
    return list(push(pieces, host(folder), start_local, "x", exact=exact))[-1]


def written(path: Path, data: bytes, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)
    return path
