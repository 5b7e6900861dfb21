"""data.*: images to shards."""

from invoke.tasks import task

from bench.errors import SpecError
from im2rec_tools.codec import Recipe
from tasks.door import door, folder_of, whole


@task(help={"dir": "the folder to make", "images_per_class": "images of each of 10 photographs"})
@door
def data_sample(c, dir, images_per_class="70", seed="0"):  # type: ignore[no-untyped-def]
    """Make a small labelled tree of real photographs."""
    from im2rec_tools.sample import sample
    from plots.screen import Bars

    count = whole("--images-per-class", images_per_class)
    with Bars() as bars:
        for made in sample(folder_of(dir), images_per_class=count, seed=whole("--seed", seed, 0)):
            bars.show(f"images in {dir}", made.done, made.total)


@task(
    help={
        "dir": "labelled tree: a folder of images a class",
        "val_per_class": "images of each class that MOVE to DIR_val",
        "smaller": "images below the short edge: keep or enlarge",
    }
)
@door
def data_prepare(  # type: ignore[no-untyped-def]
    c,
    dir,
    val_per_class="12",
    train_shards="2",
    val_shards="1",
    short_edge="256",
    quality="90",
    smaller="keep",
    seed="0",
):
    """Split off a validation set, list, pack into DIR_rec and read back."""
    from im2rec_tools.prepare import Shard, Wanted, prepare
    from plots.screen import Bars

    if smaller not in {"keep", "enlarge"}:
        raise SpecError(f"--smaller: expected keep or enlarge, got {smaller!r}")
    if whole("--quality", quality) > 100:
        raise SpecError(f"--quality: expected 1 to 100, got {quality}")
    recipe = Recipe(
        short_edge=whole("--short-edge", short_edge), quality=int(quality), smaller=smaller
    )
    wanted = Wanted(
        val_per_class=whole("--val-per-class", val_per_class),
        train_shards=whole("--train-shards", train_shards),
        val_shards=whole("--val-shards", val_shards),
        seed=whole("--seed", seed, 0),
        recipe=recipe,
    )
    with Bars() as bars:
        for update in prepare(folder_of(dir), wanted):
            if isinstance(update, Shard):
                bad = f", {len(update.bad)} bad: {update.bad[0]}" if update.bad else ""
                size = f"{update.images} images of {update.classes} classes"
                bars.line(f"{update.path}: {size}, {update.bytes / 1e6:.1f} MB, read back{bad}")
            else:
                name, packed = update
                bars.show(f"packing {name}", packed.done, packed.total)
