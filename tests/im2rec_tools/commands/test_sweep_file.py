"""The sweep file of prepared images, and images too small for the network."""

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from bench.sweep import load_sweep
from im2rec_tools.commands.arguments import parse_shape
from im2rec_tools.commands.sweep_file import (
    PreparedFolder,
    fitting_shape,
    next_commands,
    small_image_lines,
    sweep_text,
)
from im2rec_tools.declarations import PREPARE
from im2rec_tools.errors import DataError
from tests.support.data.trees import lines, tree

FACTS = PreparedFolder(
    folder=Path("data/mine_rec"),
    name="mine",
    classes=3,
    images=45,
    has_val=True,
    wanted=(3, 224, 224),
    sizes={(256, 300): 40, (203, 300): 5},
    mean=(120.5, 110.25, 100.0),
    deviation=(58.0, 57.0, 56.5),
)


def test_prepare_writes_a_sweep_that_loads_and_keeps_what_the_user_changes(tmp_path: Path) -> None:
    root = tree(tmp_path / 'my "photos" \u732b', {"cat": 8, "dog": 8})
    given = {"dir": str(root), "val_per_class": "2", "train_shards": "1"}
    printed = lines(PREPARE.planned(given))
    file = tmp_path / 'my "photos" \u732b_rec' / 'my "photos" \u732b.toml'
    assert f"sweep file: {file}" in printed
    (trial,) = load_sweep(str(file)).trials
    assert trial.model.num_classes == 2
    assert trial.model.image_shape == (3, 64, 64)
    assert (trial.data.train, trial.data.val) == (str(file.parent / "train"), f"{file.parent}/val")
    file.write_text(file.read_text() + "# mine\n")
    assert f"sweep file: {file} (changed by you; kept)" in lines(PREPARE.planned(given))
    assert file.read_text().endswith("# mine\n")


@pytest.mark.parametrize("shape", [(3, 224, 224), (3, 28, 28), (3, 33, 48)])
@pytest.mark.parametrize("has_val", [True, False])
def test_the_points_of_a_sweep_file_load_and_its_commented_point_too(
    tmp_path: Path, shape: tuple[int, int, int], has_val: bool
) -> None:
    sizes = {(256, 256): 45}
    text = sweep_text(replace(FACTS, wanted=shape, sizes=sizes, has_val=has_val))
    above, table, below = text.partition("# [[points]]")
    active = "\n".join(line.removeprefix("# ") for line in (table + below).splitlines())
    (tmp_path / "x.toml").write_text(f"{above}{active}\n")
    first, second = load_sweep(str(tmp_path / "x.toml")).trials
    assert first.model.image_shape == shape
    assert (first.measuring.windows, second.measuring.windows) == (60, 0)
    assert bool(first.data.val) == has_val
    assert second.data.stop_accuracy == (0.9 if has_val else 1)
    assert ("--data-val" in next_commands(replace(FACTS, has_val=has_val))[-1]) == has_val


def test_small_images_are_reported_with_both_remedies() -> None:
    first, enlarge, crop = small_image_lines(FACTS, short_edge=256)
    assert first == (
        "note: 5 of 45 images are smaller than the network's input, 224 x 224 pixels; the smallest "
        "has 203 x 300"
    )
    assert enlarge.startswith("  either enlarge them")
    assert enlarge.endswith("--enlarge-small")
    center = "  or train on the center 192 x 192 pixels of every image, also of larger ones: "
    assert crop.startswith(f"{center}--image-shape 3,192,192")
    assert small_image_lines(FACTS, short_edge=64)[1].endswith("--short-edge 224 --enlarge-small")
    assert small_image_lines(replace(FACTS, wanted=(3, 192, 203)), short_edge=256) == []
    assert (
        "image_shape = [3, 192, 192]   # center of all images; below [3, 224, 224]: 5\n"
        in sweep_text(FACTS)
    )


def test_one_small_image_is_singular() -> None:
    first, *_ = small_image_lines(replace(FACTS, sizes={(256, 300): 4, (40, 45): 1}), 256)
    assert first.startswith("note: 1 of 5 images is smaller than the network's input, ")


def test_small_images_alone_are_cropped_rather_than_enlarged() -> None:
    _, crop, enlarge = small_image_lines(replace(FACTS, sizes={(64, 90): 45}), short_edge=256)
    assert crop.startswith("  either train on the center 64 x 64 pixels")
    assert enlarge.startswith("  or enlarge them")


@pytest.mark.parametrize(
    ("edge", "shape"),
    [(300, 224), (224, 224), (203, 192), (95, 88), (48, 48), (33, 32), (31, 31), (28, 28), (7, 7)],
)
def test_the_shape_is_the_largest_that_fits_all_images(edge: int, shape: int) -> None:
    assert fitting_shape({(400, edge): 1, (500, 400): 9}, (3, 224, 224)) == (3, shape, shape)


@pytest.mark.parametrize("text", ["224", "3,224", "1,28,28", "3,0,5", "3,a,5", ""])
def test_a_shape_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"--image-shape: expected 3,HEIGHT,WIDTH"):
        parse_shape("--image-shape", text)


def test_mean_and_deviation_are_those_of_the_training_images(tmp_path: Path) -> None:
    for name, color in (("cat", (0, 100, 200)), ("dog", (0, 100, 100))):
        (tmp_path / "t" / name).mkdir(parents=True)
        for number in range(3):
            picture = np.full((40, 40, 3), color, np.uint8)  # blue, green, red
            cv2.imwrite(str(tmp_path / "t" / name / f"{number}.png"), picture)
    given = {"dir": str(tmp_path / "t"), "val_per_class": "1", "train_shards": "1"}
    lines(PREPARE.planned(given | {"raw_pixels": True}))
    (trial,) = load_sweep(str(tmp_path / "t_rec" / "t.toml")).trials
    assert trial.data.rgb_mean == (150.0, 100.0, 0.0)
    assert trial.data.rgb_std == (50.0, 1.0, 1.0)
