"""Fields of a sweep that contradict the shards on this machine."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.data.shard_checks import default_shape
from bench.errors import SpecError
from bench.sweep import parse_sweep
from bench.trial import Trial, make
from im2rec_tools.errors import DataError
from im2rec_tools.formats.tree import record_files
from launch.job.plan import host_warnings
from launch.sweep import check_local_data, data_manifest
from tests.support.data.trees import jpeg, made, tree


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return packed images of two classes, with a short edge of 64 pixels."""
    root = tree(tmp_path_factory.mktemp("local") / "t", {"cat": 9, "dog": 7})
    made(root)
    return root.with_name("t_rec")


def trial(shards: Path, **fields: Any) -> Trial:
    given: dict[str, Any] = {
        "mode": "real",
        "network": "tiny",
        "kvstore": "local",
        "devices": 1,
        "batch_per_device": 4,
        "num_classes": 2,
        "image_shape": [3, 64, 64],
        "data_train": str(shards / "train"),
        "data_val": str(shards / "val"),
    }
    return make(given | fields)


def test_fields_that_fit_the_shards_have_no_notes(shards: Path) -> None:
    assert check_local_data([trial(shards)]) == []


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            {"batch_per_device": 13},
            r"batch_per_device: expected at most 12; a worker has 12 of the 12 images in "
            r".*, got 13\. Use a smaller batch, or more images$",
        ),
        ({"num_classes": 1}, r"num_classes: expected 2 or more, .*labels\.txt, got 1\. Give 2$"),
        (
            {"image_shape": [3, 224, 224]},
            r"image_shape: expected at most \d+ x 64 pixels, .*, got 224 x 224\. "
            r"Give \[3, 64, 64\], or pack with --short-edge 224$",
        ),
        (
            {"mode": "test-io", "image_shape": [3, 65, 65], "data_val": ""},
            r"image_shape: expected at most \d+ x 64 pixels, .* got 65 x 65\.",
        ),
    ],
)
def test_a_field_that_contradicts_the_shards_is_rejected(
    shards: Path, fields: dict[str, Any], line: str
) -> None:
    with pytest.raises(SpecError, match=line):
        check_local_data([trial(shards), trial(shards, **fields)])


def test_validation_shards_of_other_classes_are_rejected(shards: Path, tmp_path: Path) -> None:
    made(tree(tmp_path / "o", {"cat": 9, "eel": 7}))
    other = str(tmp_path / "o_rec" / "val")
    with pytest.raises(SpecError, match=r"^data_val: expected class 'dog' for label 1, as in"):
        check_local_data([trial(shards, data_val=other)])


def test_more_classes_than_the_shards_are_noted_once(shards: Path) -> None:
    large = [trial(shards, num_classes=1000, devices=count) for count in (1, 2)]
    (note,) = check_local_data(large)
    assert note.startswith("note: num_classes: the shards have the 2 classes of ")
    assert note.endswith("labels.txt, the network has 1000")
    assert check_local_data([trial(shards, mode="test-io", data_val="", num_classes=1)]) == []


def test_the_smallest_image_limits_the_shape(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 5, "dog": 5})
    (root / "cat" / "small.jpg").write_bytes(jpeg(40, 45))
    made(root)
    line = (
        r"image_shape: expected at most \d\d x 40 pixels, the smallest packed image, got 64 x 64\. "
        r"Give \[3, 40, 40\], or pack with --short-edge 64 --enlarge-small$"
    )
    own = tmp_path / "t_rec"
    with pytest.raises(SpecError, match=line):
        check_local_data([trial(own)])
    assert check_local_data([trial(own, image_shape=[3, 40, 45])]) == []
    train, val = str(own / "train"), str(own / "val")
    assert default_shape(train, (3, 224, 224), val) == (3, 40, 40)


def test_shards_of_training_do_not_validate(shards: Path) -> None:
    (note,) = check_local_data([trial(shards, data_val=str(shards / "train"))])
    assert note.startswith("note: data_val: has shards of data_train, so the accuracy is that of")


def test_a_lost_shard_is_named(shards: Path, tmp_path: Path) -> None:
    shutil.copytree(shards, tmp_path / "own")
    lost = tmp_path / "own" / "train" / "train_1.rec"
    lost.unlink()
    line = r"train_1\.rec: missing, but train_1\.idx exists\. Copy or pack it again"
    with pytest.raises(SpecError, match=line):
        data_manifest(trial(tmp_path / "own"))
    with pytest.raises(DataError, match=line):
        record_files(lost.parent)
    lost.with_suffix(".idx").unlink()
    with pytest.raises(DataError, match=r"train_1\.rec: missing, but train_1\.json exists"):
        record_files(lost.parent)
    lost.with_name("labels.json").write_text("{}")
    lost.with_name(".train_1.rec.part").touch()  # it is being written
    assert len(record_files(lost.parent)) == 1


def test_shards_elsewhere_and_simulated_points_are_not_checked(shards: Path) -> None:
    away = trial(shards, data_train="/nowhere/train", data_val="", num_classes=1)
    assert check_local_data([away, trial(shards, engine="fake", num_classes=1)]) == []


@pytest.mark.parametrize("target", [80, -0.1, 1.01])
def test_a_target_is_a_fraction(shards: Path, target: float) -> None:
    line = f"stop_accuracy: expected a fraction from 0 to 1, got {float(target)}. Give 0.9 for 90 %"
    with pytest.raises(SpecError, match=line):
        trial(shards, stop_accuracy=target)


def test_a_target_of_one_is_no_target(tmp_path: Path) -> None:
    text = "stop_accuracy = 1.0\n[[points]]\ndevices = 1\n"
    with pytest.raises(SpecError, match="stop_accuracy: expected below 1, got 1; no accuracy"):
        parse_sweep(tmp_path / "s.toml", text)


def test_points_on_several_hosts_need_a_list_of_hosts(shards: Path) -> None:
    spread = {"kvstore": "dist_sync", "devices_per_host": 1}
    some = [trial(shards, devices=count, **spread) for count in (1, 2, 3)]
    (line,) = host_warnings(some)
    assert line.startswith("warning: needs 3 hosts; give --hostfile FILE or --hosts LIST (")
    assert line.endswith(" and 1 more)")
    assert host_warnings(some[:1]) == []
