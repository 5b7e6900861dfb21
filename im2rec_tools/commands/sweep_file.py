"""Sweep file of prepared images, and a report on images that are too small."""

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from im2rec_tools.files import write_text
from im2rec_tools.formats.recipe import square_edge
from im2rec_tools.formats.tree import numbers_last
from im2rec_tools.packing.colors import Colors, color_statistics
from im2rec_tools.packing.verify import ShardContents

Shape = tuple[int, int, int]
# (height, width) of an image, and the number of such images.
Sizes = Mapping[tuple[int, int], int]

_CHECKOUT = Path(__file__).parents[2]
_LARGEST_CIFAR = 28  # up to this height ResNet-18 does not exist
_BATCH = 16
# The commented point of a sweep file, with and without validation images.
_ACCURACY = 'Time to accuracy: remove the "#" to train until a validation exceeds 0.9.'
_EPOCHS = 'Epochs: remove the "#" to train for 10 epochs.'
_STOP = "# stop_accuracy = 0.9           # the point fails if no epoch exceeds it\n"


@dataclass(frozen=True, kw_only=True)
class PreparedFolder:
    """Facts about a prepared folder that its sweep file states.

    wanted  input shape that was asked for
    sizes   of all images
    images  number of training images
    """

    folder: Path
    name: str
    classes: int
    images: int
    has_val: bool
    wanted: Shape
    sizes: Sizes
    mean: Colors
    deviation: Colors

    @property
    def path(self) -> Path:
        """The sweep file."""
        return self.folder / f"{self.name}.toml"

    @property
    def shape(self) -> Shape:
        """The shape that was asked for, or the largest square that fits all images."""
        return fitting_shape(self.sizes, self.wanted)


def prepared(
    folder: Path,
    name: str,
    found: Sequence[ShardContents],
    *,
    classes: int,
    wanted: Shape,
) -> PreparedFolder:
    """Collect the facts from the verified shards."""
    sizes: Counter[tuple[int, int]] = Counter()
    for one in found:
        sizes.update(one.sizes)
    train = [one for one in found if one.path.parent.name == "train"]
    mean, deviation = color_statistics(sorted((one.path for one in train), key=numbers_last))
    return PreparedFolder(
        folder=folder,
        name=name,
        classes=classes,
        images=sum(one.images for one in train),
        has_val=len(train) < len(found),
        wanted=wanted,
        sizes=sizes,
        mean=mean,
        deviation=deviation,
    )


def too_small(sizes: Sizes, shape: Shape) -> Sizes:
    """Return the sizes of the images that a network with this input cannot read."""
    _, height, width = shape
    return {size: count for size, count in sizes.items() if size[0] < height or size[1] < width}


def fitting_shape(sizes: Sizes, wanted: Shape) -> Shape:
    """Return the shape, or the largest square that fits all images."""
    if not too_small(sizes, wanted):
        return wanted
    edge = square_edge(min(*wanted[1:], *(min(size) for size in sizes)))
    return 3, edge, edge


def small_image_lines(made: PreparedFolder, short_edge: int) -> list[str]:
    """Report images below the input that was asked for; the better remedy first."""
    small = too_small(made.sizes, made.wanted)
    if not small:
        return []
    _, height, width = made.wanted
    least = min(small, key=lambda size: (min(size), max(size)))
    needed = max(height, width)
    edge = f" --short-edge {needed}" if short_edge < needed else ""
    count, total = sum(small.values()), sum(made.sizes.values())
    enlarge = (
        f"enlarge them: move {made.folder} away, then run this command again with"
        f"{edge} --enlarge-small"
    )
    crop = (
        f"train on the center {made.shape[1]} x {made.shape[2]} pixels of every image, also of "
        f"larger ones: --image-shape {_commas(made.shape)} ({made.path.name} has it)"
    )
    # A crop for a few small images costs all others most of their content.
    first, second = (enlarge, crop) if count < total else (crop, enlarge)
    return [
        f"note: {count} of {total} images {'is' if count == 1 else 'are'} smaller than the "
        f"network's input, {height} x {width} pixels; the smallest has {least[0]} x {least[1]}",
        f"  either {first}",
        f"  or {second}",
    ]


def write_sweep(made: PreparedFolder) -> str:
    """Write the sweep file, unless there is one; return a line about it."""
    text = sweep_text(made)
    if not made.path.exists():
        write_text(made.path, text)
        return f"sweep file: {made.path}"
    kept = made.path.is_file() and made.path.read_bytes() == text.encode()
    return f"sweep file: {made.path}{'' if kept else ' (changed by you; kept)'}"


def next_commands(made: PreparedFolder) -> list[str]:
    """Return the commands that measure and train."""
    folder = _from_checkout(made.folder)
    data = ["--data-train", folder / "train", *(("--data-val", folder / "val") * made.has_val)]
    shape = _commas(made.shape)
    network = ["--network", "resnet", "--num-layers", _depth(made.shape), "--image-shape", shape]
    training = [
        "--batch-size",
        _batch(made),
        "--num-epochs",
        10,
        "--lr",
        0.01,
        "--kv-store",
        "local",
    ]
    colors = ["--rgb-mean", _commas(made.mean), "--rgb-std", _commas(made.deviation)]
    saved = ["--num-classes", made.classes, "--model-prefix", folder / made.name]
    words = [*data, *network, *training, *colors, *saved]
    return [
        "next, measure the throughput of training, or train and save checkpoints:",
        f"  .venv/bin/fab bench.sweep {shlex.quote(str(folder / made.path.name))}",
        f"  .venv/bin/python -m bench.train_imagenet {shlex.join(map(str, words))}",
    ]


def _commas(values: Iterable[float]) -> str:
    return ",".join(map(str, values))


def _from_checkout(folder: Path) -> Path:
    """Return the folder as a command in the checkout names it."""
    return folder if Path.cwd() == _CHECKOUT else folder.absolute()


def _depth(shape: Shape) -> int:
    return 20 if shape[1] <= _LARGEST_CIFAR else 18


def _batch(made: PreparedFolder) -> int:
    return min(_BATCH, made.images)


def sweep_text(made: PreparedFolder) -> str:
    """Return the text of the sweep file."""
    folder = _from_checkout(made.folder)
    small = sum(too_small(made.sizes, made.wanted).values())
    why = f"   # center of all images; below {list(made.wanted)}: {small}" if small else ""
    val = f"data_val = {_quoted(folder / 'val')}\n" if made.has_val else ""
    return f"""\
# Train on the images of {made.name}: {made.images} for training, {made.classes} classes.
# .venv/bin/fab bench.sweep {folder / made.path.name}
# All fields: docs/reference/sweep-file.md

description = {_quoted(made.name)}
repeats = 3                     # fresh jobs per point

device = "cpu"                  # "gpu" if the hosts have GPUs
mode = "real"                   # read, decode and train
num_classes = {made.classes}                 # lines of labels.txt
image_shape = {list(made.shape)}{why}
data_train = {_quoted(folder / "train")}
{val}rgb_mean = {list(made.mean)}    # of these images
rgb_std = {list(made.deviation)}

# Throughput: stops when the 95 % CI is within 2 %, or after 60 windows or 300 s.
[[points]]
network = "resnet-{_depth(made.shape)}"           # or a list: ["resnet-18", "alexnet"]
kvstore = "local"               # or "dist_sync" for several workers
devices = 1                     # or a list: [1, 2, 4]
batch_per_device = {_batch(made)}

# {_ACCURACY if made.has_val else _EPOCHS}
# [[points]]
# network = "resnet-{_depth(made.shape)}"
# kvstore = "local"
# devices = 1
# batch_per_device = {_batch(made)}
# windows = 0                   # all epochs
# num_epochs = 10
{_STOP * made.has_val}"""


def _quoted(value: object) -> str:
    """Return a string as TOML."""
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
