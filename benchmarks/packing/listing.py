"""Measure the time and memory to list a large tree of images.

Results: docs/explanation/data-benchmarks.md.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def make(root: Path, files: int, classes: int) -> None:
    """Create a tree of empty files with the names of ImageNet's."""
    for number in range(classes):
        folder = root / f"n{number:08}"
        folder.mkdir(parents=True)
        for image in range(files // classes):
            (folder / f"n{number:08}_{image}.JPEG").touch()


def main() -> None:
    """Parse the command line, list the tree, print time and memory."""
    parser = argparse.ArgumentParser("python -m benchmarks.packing.listing", description=__doc__)
    parser.add_argument(
        "--files", metavar="N", type=int, default=200_000, help="Files in the tree [%(default)s]"
    )
    parser.add_argument(
        "--classes", metavar="N", type=int, default=1000, help="Folders in the tree [%(default)s]"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        make(Path(work) / "tree", given.files, given.classes)
        command = [sys.executable, "-m", "im2rec_tools", "list", f"{work}/x", f"{work}/tree"]
        began = time.perf_counter()
        subprocess.run([*command, "--chunks", "8"], cwd=ROOT, check=True, capture_output=True)
        took = time.perf_counter() - began
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(f"{given.files} files: {took:.2f} s, {most / 1024:.0f} MiB peak memory")


if __name__ == "__main__":
    main()
