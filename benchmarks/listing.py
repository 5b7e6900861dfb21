"""Listing a large tree: `python -m benchmarks.listing --files 200000`."""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent


def make(root: Path, files: int, classes: int) -> None:
    """A tree of empty files named as ImageNet's."""
    for number in range(classes):
        folder = root / f"n{number:08}"
        folder.mkdir(parents=True)
        for image in range(files // classes):
            (folder / f"n{number:08}_{image}.JPEG").touch()


def main() -> None:
    """Parses the command line, lists the tree and says time and memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=200_000)
    parser.add_argument("--classes", type=int, default=1000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        make(Path(work) / "tree", given.files, given.classes)
        command = [sys.executable, "-m", "im2rec_tools", "list", f"{work}/x", f"{work}/tree"]
        began = time.perf_counter()
        subprocess.run([*command, "--chunks", "8"], cwd=ROOT, check=True, capture_output=True)
        took = time.perf_counter() - began
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"{given.files} files: {took:.2f} s, {most / 1024:.0f} MiB at most")


if __name__ == "__main__":
    main()
