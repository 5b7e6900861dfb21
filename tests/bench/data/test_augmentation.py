"""Augmented images: amounts as in MXNet's reader, independent of threads."""

import itertools
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from bench.data.augmentation import augment
from bench.data.augmentation_options import AugmentationOptions
from bench.data.partition import whole_data
from bench.errors import SpecError
from bench.training.options import Options, parse
from im2rec_tools.formats.recordio import ImageRecord, pack
from tests.support.data.shards import write
from tests.support.data.trees import jpeg
from tests.support.repeats import slow

_SIZE = (40, 48)


def photograph(height: int = 60, width: int = 70) -> Any:
    """Return a smooth image with a bright, colored corner, so that changes show."""
    rows, columns = np.mgrid[0:height, 0:width]
    planes = [60 + rows, 100 + columns, 20 + (3 * rows + 3 * columns) // 2]
    return np.stack(planes, axis=2).astype(np.uint8)


def many(count: int = 400, **asked: Any) -> list[Any]:
    image, how = photograph(), AugmentationOptions(**asked)
    return [augment(image, how, _SIZE, np.random.default_rng((1, n))) for n in range(count)]


def test_nothing_asked_for_is_the_crop_from_the_middle() -> None:
    (one,) = many(1)
    assert np.array_equal(one, photograph()[10:50, 11:59])


def test_crops_are_parts_of_the_image_from_everywhere() -> None:
    corners = {tuple(one[0, 0].tolist()) for one in many(4000, random_crop=1)}
    assert corners == {tuple(one.tolist()) for one in photograph()[:21, :23].reshape(-1, 3)}


def test_half_of_the_images_are_mirrored() -> None:
    plain = many(1)[0]
    mirrored = [np.array_equal(one, cv2.flip(plain, 1)) for one in many(random_mirror=1)]
    assert 150 < sum(mirrored) < 250
    rest = [one for one, was in zip(many(random_mirror=1), mirrored, strict=True) if not was]
    assert all(np.array_equal(one, plain) for one in rest)


def test_padding_has_its_colour_and_lets_small_images_through() -> None:
    asked = AugmentationOptions(pad_size=10, fill_value=7)
    one = augment(photograph(30, 40), asked, _SIZE, np.random.default_rng(0))
    assert (one[:5] == 7).all()
    assert (one[5:35, 4:44] == photograph(30, 40)).all()
    assert (one[:, :4] == 7).all()


def test_square_crops_are_resized() -> None:
    wanted = cv2.resize(photograph()[15:45, 20:50], _SIZE[::-1])
    assert np.array_equal(many(1, min_crop_size=30, max_crop_size=30)[0], wanted)
    assert np.array_equal(many(1, max_crop_size=30)[0], wanted)
    sizes = {one[0, 0, 0] for one in many(min_crop_size=20, max_crop_size=60)}
    assert len(sizes) > 15


@pytest.mark.parametrize("scale", [0.5, 1.5])
def test_a_scaled_image_still_fills_its_crop(scale: float) -> None:
    (one,) = many(1, min_random_scale=scale, max_random_scale=scale)
    grown = max(scale, 48 / 70 if scale < 1 else 0)  # enlarged again to cover 40 x 48
    middle = photograph()[30, 35].astype(int)
    assert one.shape == (*_SIZE, 3)
    assert np.abs(one[20, 24].astype(int) - middle).max() <= 2
    slope = (one[20, 44].astype(int) - one[20, 4])[1] / 40  # green grows by 1 a column
    assert slope == pytest.approx(1 / grown, rel=0.05)


def test_rotation_goes_both_ways_and_up_to_its_limit() -> None:
    # Blue grows with rows and columns alike: its steepest direction turns with the image.
    turns = []
    for one in many(2000, max_random_rotate_angle=10):
        middle = one[8:32, 12:36, 2].astype(float)
        down, across = np.diff(middle, axis=0).mean(), np.diff(middle, axis=1).mean()
        turns.append(np.degrees(np.arctan2(down, across)) - 45)
    assert max(turns) == pytest.approx(10, abs=1.5)
    assert min(turns) == pytest.approx(-10, abs=1.5)
    assert np.mean(turns) == pytest.approx(0, abs=0.6)


@pytest.mark.parametrize(
    "asked",
    [
        {"random_resized_crop": 1, "min_random_area": 0.08},
        {"random_resized_crop": 1, "min_random_aspect_ratio": 0.75, "max_random_aspect_ratio": 1.3},
        {"random_resized_crop": 1, "min_random_area": 0.999, "min_random_aspect_ratio": 9.0,
         "max_random_aspect_ratio": 9.0},
        {"max_random_shear_ratio": 0.2, "max_random_aspect_ratio": 0.25},
        {"max_random_h": 36, "max_random_s": 50, "max_random_l": 50},
        {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "pca_noise": 0.1},
    ],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(60, 70), (41, 49), (300, 20)])
def test_any_change_of_any_image_has_the_size_asked_for(
    asked: dict[str, Any], shape: tuple[int, int]
) -> None:
    for seed in range(30):
        draw = np.random.default_rng(seed)
        one = augment(photograph(*shape), AugmentationOptions(**asked), _SIZE, draw)
        assert one.shape == (*_SIZE, 3)
        assert one.dtype == np.uint8


def test_grey_images_change_too() -> None:
    asked = AugmentationOptions(
        brightness=0.4, contrast=0.4, random_mirror=1, random_crop=1, max_random_rotate_angle=5
    )
    for grey in (photograph()[:, :, :1], photograph()[:, :, 0]):
        one = augment(grey, asked, _SIZE, np.random.default_rng(2))
        assert one.shape == _SIZE
        assert one.std() > 1


def shard(path: Path, side: int = 64) -> Path:
    images = [jpeg(side, side, seed) for seed in range(8)]
    return write(
        path,
        [pack(ImageRecord(index=n, labels=(float(n),), image=one)) for n, one in enumerate(images)],
    )


def options(data: Path, *more: str) -> Options:
    line = ("--data-train", str(data), "--batch-size", "8", "--image-shape", "3,40,48")
    return parse([*line, "--num-classes", "10", *more])


def ours(asked: Options, batches: int, rank: int = 0) -> Any:
    from bench.data import loader  # noqa: PLC0415
    from bench.training.mxnet import inputs  # noqa: PLC0415

    whole = whole_data(asked.data_train)
    order = itertools.repeat(np.arange(whole.images))
    stream = itertools.islice(
        inputs.training_batches(asked, whole, order, loader.Reader(rank=rank)), batches
    )
    return np.concatenate([data.asnumpy() for data, _ in stream])


def theirs(asked: Options, batches: int, settings: dict[str, float]) -> Any:
    from bench.training.mxnet_shim import mx  # noqa: PLC0415

    iterator = mx.io.ImageRecordIter(
        path_imgrec=asked.data_train,
        data_shape=asked.image_shape,
        batch_size=8,
        preprocess_threads=1,
        **{f"mean_{c}": value for c, value in zip("rgb", asked.rgb_mean, strict=True)},
        **({"fill_value": 127} | settings),
    )
    found: list[Any] = []
    while len(found) < batches:
        iterator.reset()
        found += [batch.data[0].asnumpy() for batch in iterator]
    return np.concatenate(found[:batches])


@pytest.mark.mxnet
def test_changes_do_not_follow_from_the_number_of_threads(tmp_path: Path) -> None:
    path = shard(tmp_path / "x.rec")
    words = ("--random-crop=1", "--random-mirror=1", "--brightness=0.3")
    one, four = (ours(options(path, *words, f"--data-nthreads={n}"), 5) for n in (1, 4))
    assert np.array_equal(one, four)
    assert not np.array_equal(one[:8], one[8:16])  # new ones for each epoch


@pytest.mark.mxnet
@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("--pad-size=3 --fill-value=9", {"pad": 3, "fill_value": 9}),
        ("--min-crop-size=30 --max-crop-size=30", {"min_crop_size": 30, "max_crop_size": 30}),
        ("--random-resized-crop=1", {"random_resized_crop": 1}),
        (
            "--min-random-scale=0.9 --max-random-scale=0.9",
            {"min_random_scale": 0.9, "max_random_scale": 0.9},
        ),
    ],
)
def test_changes_without_chance_are_those_of_mxnets_reader(
    tmp_path: Path, words: str, settings: dict[str, float]
) -> None:
    path = shard(tmp_path / "x.rec")
    asked = options(path, *words.split())
    assert np.abs(ours(asked, 1) - theirs(asked, 1, settings)).max() < 1.01  # rounding


@pytest.mark.mxnet
@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("--random-crop=1 --random-mirror=1", {"rand_crop": 1, "rand_mirror": 1}),
        ("--max-random-rotate-angle=20", {"max_rotate_angle": 20}),
        ("--contrast=0.4", {"contrast": 0.4}),
        *slow(
            ("--max-random-aspect-ratio=0.25", {"max_aspect_ratio": 0.25}),
            ("--max-random-h=36", {"random_h": 36}),
            ("--max-random-shear-ratio=0.2", {"max_shear_ratio": 0.2}),
            ("--max-random-s=50", {"random_s": 50}),
            ("--max-random-l=50", {"random_l": 50}),
            ("--brightness=0.4", {"brightness": 0.4}),
            ("--saturation=0.4", {"saturation": 0.4}),
            ("--pca-noise=0.1", {"pca_noise": 0.1}),
        ),
        (
            "--random-resized-crop=1 --min-random-area=0.2 --min-random-aspect-ratio=0.75 "
            "--max-random-aspect-ratio=1.33",
            {"random_resized_crop": 1, "min_random_area": 0.2, "min_aspect_ratio": 0.75,
             "max_aspect_ratio": 1.33},
        ),
    ],
)  # fmt: skip
def test_changes_by_chance_scatter_as_those_of_mxnets_reader(
    tmp_path: Path, words: str, settings: dict[str, float]
) -> None:
    path = shard(tmp_path / "x.rec")
    asked = options(path, *words.split())
    batches = 400
    plain = ours(options(path), 1)
    mine, other = (
        np.abs(many.reshape(batches, *plain.shape) - plain).mean(axis=(0, 2, 3, 4))
        for many in (ours(asked, batches), theirs(asked, batches, settings))
    )
    np.testing.assert_allclose(mine, other, rtol=0.15)  # of each image, how far it is changed
    assert mine.mean() == pytest.approx(other.mean(), rel=0.06)


@pytest.mark.mxnet
@pytest.mark.parametrize("words", ["--random-crop=1", "--random-mirror=1 --max-crop-size=65"])
def test_images_too_small_for_a_crop_are_named(tmp_path: Path, words: str) -> None:
    path = shard(tmp_path / "x.rec", side=64 if "size" in words else 39)
    with pytest.raises(
        SpecError, match=r"record at byte 0: expected an image of at least .* pixels, got"
    ):
        ours(options(path, *words.split()), 1)
