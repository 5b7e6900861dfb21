"""Options that several data commands share."""

import math
import re
from dataclasses import replace

from im2rec_tools.cli import Option, choice, integer, path, path_or_none, percentage, tree_root
from im2rec_tools.errors import DataError, error_line, quoted

_SMALL = "Small classes"
_SHARDS = "Shards"
_ENCODING = "Encoding"
_WORK = "Processing"
_PART = "Give host I of N the number I, from 1"


def _parse_part(called: str, text: str) -> tuple[int, int]:
    """Parse 'I/N', 1 <= I <= N <= 9999; raise DataError for anything else."""
    found = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise DataError(
            error_line(called, expected="I/N, such as 1/4", got=quoted(text), fix=_PART)
        )
    return int(found[1]), int(found[2])


def parse_shape(called: str, text: str) -> tuple[int, int, int]:
    """Parse the shape of the network's input: '3,224,224'."""
    match = re.fullmatch(r"3,([0-9]{1,5}),([0-9]{1,5})", text.replace(" ", ""))
    if not match or not (int(match[1]) and int(match[2])):
        raise DataError(
            error_line(
                called, expected="3,HEIGHT,WIDTH", got=quoted(text), fix=f"Give {called} 3,224,224"
            )
        )
    return 3, int(match[1]), int(match[2])


TREE = Option("root", "ROOT", "Labeled tree: one folder of images per class", parse=tree_root)
SHARDS = Option("path", "PATH", "A .rec file, or a folder of them", parse=path)
PREPARED = replace(
    SHARDS, text="Folder that data.prepare made, a folder of .rec files, or a .rec file"
)
OUT = Option("out", "OUT", "Folder to write the files to", parse=path)
PART = Option(
    "part",
    "I/N",
    "Write the I-th of N shares of the classes, to OUT/part-I-of-N; one share per host",
    default="1/1",
    parse=_parse_part,
)
SEED = Option(
    "seed",
    "N",
    "Seed of the random choice; the same seed gives the same result",
    default="0",
    parse=integer(0),
)
SET = Option("set", "NAME", "First part of the file names, such as train", default="train")
LABELS = Option(
    "labels",
    "FILE",
    "Labels file with the class names",
    default="",
    parse=path_or_none,
    empty="none",
)
BOXES = Option(
    "boxes",
    "DIR",
    "Folder of ILSVRC's XML files, which give the boxes of images by name",
    default="",
    parse=path_or_none,
    empty="none",
)
MIN_IMAGES = Option(
    "min-images",
    "N",
    "Move classes with fewer images to ROOT_filtered",
    default="500",
    parse=integer(1),
    group=_SMALL,
)
SMALL = Option(
    "small",
    "ACTION",
    "Classes too small to split: stay (use all for training), move (use all for validation), or "
    "refuse (fail)",
    default="stay",
    parse=choice("stay", "move", "refuse"),
    group=_SMALL,
)
CHUNKS = Option(
    "chunks",
    "N",
    "Number of shards, with one image list each",
    default="1",
    parse=integer(1),
    group=_SHARDS,
)
IMAGES_PER_SHARD = Option(
    "images-per-shard",
    "N",
    "Start a new shard after this many images; replaces --chunks unless 0",
    default="0",
    parse=integer(0),
    group=_SHARDS,
)
TRAIN_SHARDS = Option(
    "train-shards", "N", "Number of training shards", default="8", parse=integer(1), group=_SHARDS
)
VAL_SHARDS = replace(
    TRAIN_SHARDS, name="val-shards", text="Number of validation shards", default="1"
)
PROCESSES = Option(
    "processes",
    "N",
    "Number of processes; 0 starts one per core",
    default="0",
    parse=integer(0, 4096),
    group=_WORK,
)
MAX_BAD = Option(
    "max-bad",
    "PERCENT",
    "Fail if more than this percentage, rounded up to whole images, cannot be packed",
    default="0.1",
    parse=percentage,
    unit="%",
    group=_WORK,
)


def allowed_bad(total: int, share: float) -> int:
    """Return how many may be bad: the share, rounded up to whole images or files."""
    return math.ceil(round(total * share, 6))


ENCODING = (
    Option(
        "short-edge",
        "PIXELS",
        "Resize the short edge to this length; 0 keeps the size",
        default="256",
        parse=integer(0, 65_500),
        unit="px",
        group=_ENCODING,
    ),
    Option(
        "quality",
        "N",
        "JPEG quality, 0 to 100",
        default="90",
        parse=integer(0, 100),
        group=_ENCODING,
    ),
    Option(
        "enlarge-small",
        "",
        "Enlarge images whose short edge is below --short-edge",
        default=False,
        group=_ENCODING,
    ),
    Option(
        "pass-through-small",
        "",
        "Copy valid JPEGs no larger than --short-edge unchanged instead of encoding them again",
        default=False,
        group=_ENCODING,
    ),
    Option(
        "raw-pixels",
        "",
        "Store decoded pixels: more disk space, less CPU time",
        default=False,
        group=_ENCODING,
    ),
)
