"""Compare packing with upstream's im2rec.py.

All packers run alternately over the same images. The table has medians of whole processes, and the
same without start-up, which is the time of the same command over one image. Results:
docs/explanation/data-benchmarks.md.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import cv2
import simplejpeg
from tabulate import tabulate

from im2rec_tools.commands.sample import sample
from im2rec_tools.declarations import COMMANDS
from im2rec_tools.formats import lists
from im2rec_tools.formats.images import decode, encode_pixels, resize, size_of
from im2rec_tools.formats.recipe import Recipe
from im2rec_tools.formats.recordio import records, unpack
from im2rec_tools.packing.verify import verify

_STEPS = ("read", "decode", "resize", "encode", "write")
ROOT = Path(__file__).parent.parent.parent
PACK = [sys.executable, "-m", "im2rec_tools", "pack", "--processes", "2"]
DROP_IN = [sys.executable, "-m", "im2rec_tools.im2rec", "--quality", "90", "--num-thread", "2"]


@dataclass(frozen=True, kw_only=True)
class Way:
    """Command of a packer, and the packer that it is compared with."""

    command: list[str]
    against: str = ""


def ways(upstream: list[str]) -> dict[str, Way]:
    """Return the packers by name, in order of execution."""
    theirs = [*upstream, "--quality", "90", "--num-thread", "2", "--resize"]
    return {
        "upstream, 480": Way(command=[*theirs, "480"]),
        "480": Way(command=[*PACK, "--short-edge", "480"], against="upstream, 480"),
        "480, pass-through": Way(
            command=[*PACK, "--short-edge", "480", "--pass-through-small"],
            against="upstream, 480",
        ),
        "drop-in im2rec, 480": Way(command=[*DROP_IN, "--resize", "480"], against="upstream, 480"),
        "upstream, 256": Way(command=[*theirs, "256"]),
        "256": Way(command=[*PACK, "--short-edge", "256"], against="upstream, 256"),
    }


class Memory:
    """Peak resident size of any packing process, in bytes, sampled in a thread."""

    def __init__(self) -> None:
        self.most, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    is_ours = b"forkserver" in path.read_bytes()
                    status = (path.parent / "status").read_text() if is_ours else ""
                except OSError:
                    continue
                peaks = [line.split() for line in status.splitlines() if line.startswith("VmHWM")]
                self.most = max([self.most, *(int(words[1]) * 1024 for words in peaks)])

    def stop(self) -> int:
        """End sampling and return the peak."""
        self._over.set()
        self._thread.join()
        return self.most


def seconds(way: Way, lst: Path, images: Path, work: Path) -> float:
    """Return the seconds that a packer takes over a list, into a new folder."""
    with tempfile.TemporaryDirectory(dir=work) as out:
        took, rec = _packed(way, lst, images, Path(out))
        packed = sum(1 for _ in records(rec))
        if packed != lists.check(lst).entries:
            raise SystemExit(
                f"{' '.join(way.command)}: expected {lists.check(lst).entries} images, got {packed}"
            )
        return took


def _packed(way: Way, lst: Path, images: Path, folder: Path) -> tuple[float, Path]:
    """Return the seconds that a packer takes over a list, and its shard."""
    prefix = folder / "x"
    prefix.with_suffix(".lst").write_bytes(lst.read_bytes())
    command = [*way.command, str(prefix), str(images)]
    began = time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return time.perf_counter() - began, prefix.with_suffix(".rec")


def steps(files: list[Path], recipe: Recipe, out: Path) -> dict[str, float]:
    """Return the seconds of each step of packing, in a plain loop over files."""
    cv2.setNumThreads(1)
    spent = dict.fromkeys(_STEPS, 0.0)
    with out.open("wb") as target:
        for file in files:
            clock = [time.perf_counter()]
            data = file.read_bytes()
            clock.append(time.perf_counter())
            pixels = decode(data, recipe)
            clock.append(time.perf_counter())
            height, width, *_ = simplejpeg.decode_jpeg_header(data)
            small = resize(pixels, size_of(height, width, recipe), recipe)
            clock.append(time.perf_counter())
            jpeg = encode_pixels(small, recipe)
            clock.append(time.perf_counter())
            target.write(jpeg)
            clock.append(time.perf_counter())
            for step, (start, end) in zip(_STEPS, pairwise(clock), strict=True):
                spent[step] += end - start
    out.unlink()
    return spent


def limit(files: list[Path], recipe: Recipe, work: Path) -> dict[str, float]:
    """Return the seconds of each step with two processes, half of the files each."""
    with ProcessPoolExecutor(2, get_context("forkserver")) as pool:
        list(pool.map(time.sleep, [0.1, 0.1]))
        futures = [pool.submit(steps, files[n::2], recipe, work / f"steps{n}") for n in (0, 1)]
        spent = [future.result() for future in futures]
    return {step: (spent[0][step] + spent[1][step]) / 2 for step in spent[0]}


def plain_decoding(rec: Path) -> float:
    """Return the seconds to decode every image of a shard that is in memory."""
    images = [unpack(payload, "").image for _, payload in records(rec)]
    began = time.perf_counter()
    for image in images:
        simplejpeg.decode_jpeg(image, colorspace="BGR")
    return time.perf_counter() - began


def verifying(rec: Path) -> float:
    """Return the seconds to verify a shard in one process."""
    began = time.perf_counter()
    verify(rec)
    return time.perf_counter() - began


def measure(images: Path, work: Path, upstream: list[str], repeats: int) -> None:
    """Run all packers alternately and print the table."""
    for _ in COMMANDS["list"].planned({"prefix": str(work / "all"), "root": str(images)}).work():
        pass
    lst, one = work / "all.lst", work / "one.lst"
    one.write_text(lst.read_text().splitlines(keepends=True)[0])
    files = [images / entry.path for entry in lists.read(lst)]
    compared = ways(upstream)
    whole: dict[str, list[float]] = {name: [] for name in compared}
    start: dict[str, list[float]] = {name: [] for name in compared}
    bounds: dict[str, list[dict[str, float]]] = {"480": [], "256": []}
    memory = Memory()
    for _ in range(repeats):
        for name, way in compared.items():
            whole[name].append(seconds(way, lst, images, work))
            start[name].append(seconds(way, one, images, work))
            if name in bounds:
                bounds[name].append(limit(files, Recipe(short_edge=int(name)), work))
    most = memory.stop()
    middle = {name: statistics.median(times) for name, times in whole.items()}
    net = {name: middle[name] - statistics.median(start[name]) for name in compared}
    rows = []
    for name, way in compared.items():
        against = way.against or name
        spread = (max(whole[name]) - min(whole[name])) / middle[name]
        rows.append(
            [
                name,
                f"{len(files) / middle[name]:.0f}",
                f"{len(files) / net[name]:.0f}",
                f"{middle[against] / middle[name]:.2f}" if way.against else "",
                f"{net[against] / net[name]:.2f}" if way.against else "",
                f"{spread:.0%}",
            ]
        )
    headings = ["packer", "images/s", "without start-up", "ratio", "ratio without", "spread"]
    print(tabulate(rows, headings, tablefmt="github", disable_numparse=True), "\n")
    for name, found in bounds.items():
        total = statistics.median(sum(steps.values()) for steps in found)
        each = {step: statistics.median(one[step] for one in found) for step in found[0]}
        spent = ", ".join(f"{step} {one / len(files) * 2e3:.2f}" for step, one in each.items())
        print(f"{name}: {total / net[name]:.2f} of the limit; ms per image and process: {spent}")
    print(f"peak memory of a packing process: {most / 1e6:.0f} MB")
    _verifying(compared["256"], lst, images, work, repeats)


def _verifying(way: Way, lst: Path, images: Path, work: Path, repeats: int) -> None:
    with tempfile.TemporaryDirectory(dir=work) as out:
        _, rec = _packed(way, lst, images, Path(out))
        pairs = [(plain_decoding(rec), verifying(rec)) for _ in range(repeats)]
    ratio = statistics.median(plain / checked for plain, checked in pairs)
    print(f"verify: {ratio:.2f} times the throughput of plain decoding, one process each")


def main() -> None:
    """Parse the command line, make the images and run the benchmark."""
    parser = argparse.ArgumentParser("python -m benchmarks.packing.pack", description=__doc__)
    parser.add_argument(
        "--images-per-class",
        metavar="N",
        type=int,
        default=3,
        help="Images of each of the 1,000 classes [%(default)s]",
    )
    parser.add_argument(
        "--repeats",
        metavar="N",
        type=int,
        default=3,
        help="Runs of each packer; medians are printed [%(default)s]",
    )
    parser.add_argument(
        "--work",
        metavar="DIR",
        type=Path,
        help="Keep the images in this folder and reuse them [a temporary folder]",
    )
    parser.add_argument(
        "--upstream",
        metavar="WORD",
        nargs="+",
        default=[sys.executable, "-m", "benchmarks.upstream"],
        help="Command of upstream's im2rec.py, to use another interpreter with its OpenCV "
        "[benchmarks.upstream with this interpreter]",
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        place = (given.work or Path(temporary)).absolute()
        for _ in sample(
            place / "images", shape="imagenet", images_per_class=given.images_per_class
        ):
            pass
        with tempfile.TemporaryDirectory(dir=place) as work:
            measure(place / "images", Path(work), given.upstream, given.repeats)


if __name__ == "__main__":
    main()
