"""Drop-in replacement of upstream's tools/im2rec.py: same options and output.

docs/reference/im2rec-differences.md lists the intended differences.
"""

import argparse
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

if not __package__:
    print(
        "error: im2rec_tools/im2rec.py: cannot run as a script. "
        "Run 'python -m im2rec_tools.im2rec ...' in the checkout",
        file=sys.stderr,
    )
    raise SystemExit(2)

from im2rec_tools.cli import DRY_RUN, percentage, run_plan, run_program
from im2rec_tools.commands.arguments import MAX_BAD
from im2rec_tools.commands.pack import count_listed, pack_lists
from im2rec_tools.errors import DataError, error_line
from im2rec_tools.formats import lists
from im2rec_tools.formats.lists import Images
from im2rec_tools.formats.recipe import Recipe
from im2rec_tools.formats.tree import walk
from im2rec_tools.options import ProgramParser
from im2rec_tools.packing.packer import PackJob
from im2rec_tools.progress import Plan, Update
from im2rec_tools.terminal import echo

_LONGEST_EDGE = 65_500  # of a JPEG
_SWITCHES = ("--list", "--recursive", "--pass-through", "--center-crop", "--pack-label")
_COLORS: dict[int, Literal["color", "grey", "unchanged"]] = {
    1: "color",
    0: "grey",
    -1: "unchanged",
}


def without_switch_values(argv: Sequence[str]) -> list[str]:
    """Return the arguments without the True or False after a switch.

    Older releases of im2rec.py require it.
    """
    found: list[str] = []
    for word in argv:
        if found and found[-1] in _SWITCHES and word.lower() in {"true", "false"}:
            if word.lower() == "false":
                found.pop()
        else:
            found.append(word)
    return found


def parser() -> argparse.ArgumentParser:
    """Return the parser of im2rec.py's options, as in MXNet 1.9.1 and its tutorial."""
    parser = ProgramParser(
        prog="python -m im2rec_tools.im2rec",
        usage="%(prog)s PREFIX ROOT [options]",
        allow_abbrev=True,  # as upstream
        description="List images, or pack listed images into RecordIO shards.",
    )
    parser.add_argument("prefix", metavar="PREFIX", help="Prefix of the .lst and .rec files")
    parser.add_argument("root", metavar="ROOT", help="Folder of the images")
    add = parser.add_argument_group("Lists").add_argument
    add("--list", action="store_true", help="Make lists instead of packing")
    add(
        "--exts",
        nargs="+",
        default=[".jpeg", ".jpg", ".png"],
        metavar="EXT",
        help="Extensions of image files",
    )
    add("--chunks", type=int, default=1, metavar="N", help="Number of lists")
    add("--train-ratio", type=float, default=1.0, metavar="FRACTION", help="Share of train lists")
    add("--test-ratio", type=float, default=0, metavar="FRACTION", help="Share of test lists")
    text = "List subfolders too, one label each; without it, all images have label 0"
    add("--recursive", action="store_true", help=text)
    text = "List the images in order of their names"
    add("--no-shuffle", dest="shuffle", action="store_false", help=text)
    add = parser.add_argument_group("Shards").add_argument
    add("--pass-through", action="store_true", help="Store the images' bytes unchanged")
    text = "Resize the short edge to this length; 0 keeps the size [%(default)s px]"
    add("--resize", type=int, default=0, metavar="PIXELS", help=text)
    add("--center-crop", action="store_true", help="Crop images to squares")
    text = "JPEG quality, 0 to 100, or PNG compression level, 0 to 9"
    add("--quality", type=int, default=95, metavar="N", help=text)
    add("--num-thread", type=int, default=1, metavar="N", help="Number of processes")
    text = "Colors to store: 1 (color), 0 (grayscale) or -1 (as in the image)"
    add("--color", type=int, default=1, choices=[-1, 0, 1], help=text)
    add("--encoding", default=".jpg", choices=[".jpg", ".png"], help="Image format")
    add("--pack-label", action="store_true", help="Store several labels per image")
    add = parser.add_argument_group("Options that upstream does not have").add_argument
    text = f"{MAX_BAD.text} [%(default)s %%]"
    add("--max-bad", default="0.1", metavar="PERCENT", help=text)
    add("--dry-run", action="store_true", help=DRY_RUN.text)
    return parser


def _check_options(given: argparse.Namespace) -> None:
    longest = _LONGEST_EDGE if given.encoding == ".jpg" else 2**31 - 1
    for name, least, most in (
        ("chunks", 1, 10**6),
        ("resize", 0, longest),
        ("quality", 0, 100),
        ("num_thread", 1, 4096),
        ("train_ratio", 0, 1),
        ("test_ratio", 0, 1),
    ):
        if not least <= getattr(given, name) <= most:
            option = f"--{name.replace('_', '-')}"
            raise DataError(
                error_line(
                    option,
                    expected=f"{least} to {most}",
                    got=getattr(given, name),
                    fix="Run 'python -m im2rec_tools.im2rec --help'",
                )
            )
    if given.train_ratio + given.test_ratio > 1:
        raise DataError(
            error_line(
                "--train-ratio and --test-ratio",
                expected="a sum of at most 1",
                got=f"{given.train_ratio + given.test_ratio:g}",
            )
        )


def _labeled_images(root: Path, given: argparse.Namespace) -> Images:
    images = Images()
    endings = [end.lower() for end in given.exts]
    for label, (name, files) in enumerate(walk(root, endings)):
        if not given.recursive and name != ".":
            break
        for file in files:
            images.add((label,), file if name == "." else f"{name}/{file}")
        if given.recursive:
            echo(f"{name} {label}")
    return images


def _make_lists(prefix: Path, root: Path, given: argparse.Namespace) -> Iterator[Update]:
    """Write lists of upstream's lengths: the last is short if they are not even."""
    images = _labeled_images(root, given)
    if not len(images):
        raise DataError(
            error_line(
                root,
                expected=f"images ({' '.join(given.exts)})",
                got="none",
                fix="Set --exts or --recursive",
            )
        )
    indices = lists.shuffled_order(len(images)) if given.shuffle else range(len(images))
    size = -(-len(images) // given.chunks)
    test = int(size * given.test_ratio)
    train = test + int(size * given.train_ratio)
    for number in range(given.chunks):
        chunk = indices[number * size : (number + 1) * size]
        name = f"{prefix.name}_{number}" if given.chunks > 1 else prefix.name
        parts = {"": chunk}
        if given.train_ratio != 1:
            parts = {"_test": chunk[:test], "_val": chunk[train:], "_train": chunk[test:train]}
            if not given.test_ratio:
                del parts["_test"]
            if given.train_ratio + given.test_ratio >= 1:
                del parts["_val"]
        for part, run in parts.items():
            place = prefix.with_name(f"{name}{part}.lst")
            lists.write_list(place, images, run, range(len(run)))
    yield f"{len(images)} images in {given.chunks} lists: {prefix}*.lst"


def _lists(prefix: Path) -> list[Path]:
    """Return the lists of a prefix, or all lists of a folder."""
    if prefix.is_dir():
        return sorted(prefix.glob("*.lst"))
    pattern = re.compile(re.escape(prefix.name) + r"(_[0-9]+)?(_train|_val|_test)?\.lst")
    there = sorted(prefix.parent.iterdir()) if prefix.parent.is_dir() else []
    return [path for path in there if pattern.fullmatch(path.name)]


def _recipe(given: argparse.Namespace) -> Recipe:
    return Recipe(
        short_edge=given.resize,
        quality=given.quality,
        smaller="enlarge",
        keep_bytes="all" if given.pass_through else "none",
        encoding="png" if given.encoding == ".png" else "jpg",
        color=_COLORS[given.color],
        center_crop=given.center_crop,
        labels="all" if given.pack_label else "first",
    )


def _plan(given: argparse.Namespace) -> Plan:
    _check_options(given)
    prefix, root = Path(given.prefix).absolute(), Path(given.root).absolute()
    if not root.is_dir():
        raise DataError(error_line(root, expected="a folder of images", got="no folder"))
    if given.list:
        return Plan(
            says=[f"would list the images of {root} in {given.chunks} lists: {prefix}*.lst"],
            work=lambda: _make_lists(prefix, root, given),
        )
    paths = [path for path in _lists(prefix) if any(True for _ in lists.read(path))]
    if not paths:
        raise DataError(
            error_line(
                prefix, expected="lists with this prefix", got="none", fix="Make them with --list"
            )
        )
    work = PackJob(
        lists=paths,
        source=root,
        folder=paths[0].parent,
        recipe=_recipe(given),
        processes=min(given.num_thread, os.cpu_count() or 1),
    )
    allowed = percentage("--max-bad", given.max_bad)
    return Plan(
        says=_plan_lines(paths),
        work=lambda: pack_lists(work, allowed),
    )


def _plan_lines(paths: Sequence[Path]) -> Iterator[str]:
    for path in paths:
        count, notes = count_listed(path)
        yield from notes
        yield f"would pack {count} images of {path} into {path.with_suffix('.rec')}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; return its exit code."""
    given = parser().parse_args(without_switch_values(sys.argv[1:] if argv is None else argv))
    return run_program(lambda: run_plan(lambda: _plan(given), dry_run=given.dry_run))


if __name__ == "__main__":
    sys.exit(main())
