"""From a labeled tree to verified shards, and inputs that are rejected."""

import os
import random
import shutil
from bisect import bisect
from dataclasses import replace
from pathlib import Path

import cv2
import pytest

from im2rec_tools.commands.prepare import prepare
from im2rec_tools.commands.sample import sample
from im2rec_tools.commands.trees import SplitOptions, choose
from im2rec_tools.errors import DataError
from im2rec_tools.formats import recordio
from im2rec_tools.formats.images import check
from im2rec_tools.formats.recordio import records, unpack
from im2rec_tools.formats.tree import classes, sizes
from im2rec_tools.packing.verify import verify
from im2rec_tools.sample_images import PHOTOGRAPHS, shape_of
from tests.support.data.trees import jpeg, made, snapshot, tree, wanted


def test_the_sample_has_ten_classes_and_700_photographs(tmp_path: Path) -> None:
    *_, last = sample(tmp_path / "s")
    assert last == f"700 images of 10 classes in {tmp_path / 's'}"
    found = classes(tmp_path / "s")
    assert set(found) == set(PHOTOGRAPHS)
    assert sum(len(paths) for paths in found.values()) == 700
    shapes = {cv2.imread(str(tmp_path / "s" / "cat" / name)).shape for name in found["cat"]}
    assert len(shapes) > 50
    assert min(min(shape_of[:2]) for shape_of in shapes) >= 256


def test_a_sample_is_the_same_each_time_and_not_made_twice(tmp_path: Path) -> None:
    for name in ("a", "b"):
        list(sample(tmp_path / name, images_per_class=1))
    first, second = (sorted((tmp_path / name).rglob("*.jpg")) for name in ("a", "b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    before = first[0].stat().st_mtime_ns
    list(sample(tmp_path / "a", images_per_class=1))
    assert first[0].stat().st_mtime_ns == before


def test_a_sample_never_overwrites_something_else(tmp_path: Path) -> None:
    tree(tmp_path / "mine", {"dog": 1})
    with pytest.raises(DataError, match="expected an empty or new folder"):
        list(sample(tmp_path / "mine", images_per_class=1))


@pytest.mark.parametrize(("name", "edge", "train"), [("mnist", 28, 600), ("cifar-10", 32, 500)])
def test_samples_have_the_shape_of_known_data_sets(
    tmp_path: Path, name: str, edge: int, train: int
) -> None:
    list(sample(tmp_path / "s", shape=name, share=0.01))
    assert len(sizes(tmp_path / "s")) == 10
    assert sum(sizes(tmp_path / "s").values()) == pytest.approx(train, abs=2)
    assert sum(sizes(tmp_path / "s_val").values()) == pytest.approx(100, abs=2)
    files = list((tmp_path / "s").rglob("*.png"))
    assert len(files) == sum(sizes(tmp_path / "s").values())
    assert {check(path.read_bytes()) for path in files} == {(edge, edge)}


def test_the_imagenet_sample_has_its_classes_counts_and_sizes() -> None:
    wanted = shape_of("imagenet")
    assert (len(wanted.train), len(wanted.val)) == (1000, 1000)
    assert (sum(wanted.train.values()), sum(wanted.val.values())) == (1_281_167, 50_000)
    assert (min(wanted.train.values()), max(wanted.train.values())) == (732, 1300)
    draw = random.Random(0)
    edges = [min(wanted.draw(number, draw)[0].shape[:2]) for number in range(150)]
    assert 0.75 < sum(edge <= 480 for edge in edges) / len(edges) < 0.95
    assert max(edges) >= 1200


def test_every_image_is_packed_once_with_its_class(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 9, "dog": 7})
    found = made(root)
    assert [(shard.path.name, shard.images) for shard in found] == [
        ("train_0.rec", 6),
        ("train_1.rec", 6),
        ("val.rec", 4),
    ]
    assert (tmp_path / "t_rec" / "labels.txt").read_text() == "0\tcat\n1\tdog\n"
    packed = [unpack(payload, "") for shard in found[:2] for _, payload in records(shard.path)]
    assert sorted(record.labels for record in packed) == [(0.0,)] * 7 + [(1.0,)] * 5
    assert {min(check(record.image)) for record in packed} == {64}


def test_preparing_again_packs_nothing_again(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 5, "dog": 5})
    first = made(root)
    before = [shard.path.stat().st_mtime_ns for shard in first]
    assert made(root) == first
    assert [shard.path.stat().st_mtime_ns for shard in first] == before
    with pytest.raises(DataError, match=r"train_0\.rec: packed with other settings"):
        made(root, wanted(short_edge=32))


def test_folders_and_files_that_are_not_used_are_named(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 5, "dog": 5})
    (root / "elk").mkdir()
    (root / "cat" / "Thumbs.db").write_bytes(b"x")
    (root / "cat" / ".hidden").write_bytes(b"x")
    said = [one for one in prepare(root, wanted()) if isinstance(one, str)]
    assert said[:2] == [
        "note: 1 folder without images: elk",
        "note: not used, no image file extension: cat/Thumbs.db",
    ]


def test_one_run_tells_the_share_of_bad_images_of_both_sets(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 10})
    tree(tmp_path / "t_val", {"cat": 4})
    for path in (root / "cat", tmp_path / "t_val" / "cat"):
        next(iter(sorted(path.iterdir()))).write_bytes(b"no image")
    asked = wanted(val=0)
    with pytest.raises(DataError, match=r"_rec/val: more bad .* with --max-bad 25$"):
        list(prepare(root, asked))
    assert [one.images for one in made(root, replace(asked, max_bad=0.25))]


def test_lists_of_other_settings_are_not_packed_beside_the_new_ones(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 6, "dog": 6})
    made(root, wanted(train_shards=3))
    before = snapshot(tmp_path)
    for other in (wanted(), wanted(val=3, train_shards=3), wanted(train_shards=3, short_edge=32)):
        with pytest.raises(DataError, match=r"(with|of) other settings"):
            made(root, other)
    tree(root / "..", {"t/eel": 4})
    with pytest.raises(DataError, match=r"packed with other settings, or the images of"):
        made(root, wanted(train_shards=3))
    with pytest.raises(DataError, match=r"of other settings or images"):
        made(root, replace(wanted(train_shards=3), move=True))
    assert (tmp_path / "t_rec" / "labels.txt").read_text() == "0\tcat\n1\tdog\n"
    for path in (root / "eel").iterdir():
        path.unlink()
    (root / "eel").rmdir()
    assert snapshot(tmp_path) == before
    made(root, wanted(train_shards=3))


def test_a_validation_tree_of_its_own_is_packed_with_the_labels_of_training(
    tmp_path: Path,
) -> None:
    root = tree(tmp_path / "t", {"ant": 4, "cat": 4})
    tree(tmp_path / "t_val", {"cat": 3})
    found = made(root, wanted(val=0))
    assert [(one.path.name, one.images, one.labels) for one in found[2:]] == [
        ("val.rec", 3, {(1.0,): 3})
    ]
    tree(tmp_path / "t_val" / "..", {"t_val/elk": 1})
    with pytest.raises(DataError, match="elk: expected a class of the training tree"):
        made(root, wanted(val=0))


@pytest.mark.parametrize("move", [False, True])
def test_a_class_that_went_to_validation_whole_keeps_its_label(tmp_path: Path, move: bool) -> None:
    root = tree(tmp_path / "t", {"ant": 2, "cat": 6})
    asked = replace(wanted(), split=SplitOptions(images=2, small="move"), move=move)
    assert [one.labels for one in made(root, asked)] == [
        {(1.0,): 2},
        {(1.0,): 2},
        {(0.0,): 2, (1.0,): 2},
    ]
    assert len(made(root, asked)) == 3


def test_the_originals_stay_unless_they_are_to_move(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"ant": 3, "cat": 9, "dog": 7})
    tree(tmp_path / "far", {"elk": 6})
    (root / "elk").symlink_to(tmp_path / "far" / "elk")
    shutil.copytree(tmp_path / "t", tmp_path / "u", symlinks=True)
    before = snapshot(root), snapshot(tmp_path / "far")
    asked = replace(wanted(), min_images=4)
    stayed = made(root, asked)
    assert (snapshot(root), snapshot(tmp_path / "far")) == before
    assert not (tmp_path / "t_val").exists()
    assert not (tmp_path / "t_filtered").exists()
    moved = made(tmp_path / "u", replace(asked, move=True))
    assert sizes(tmp_path / "u_val") == {"cat": 2, "dog": 2, "elk": 2}
    assert sizes(tmp_path / "u_filtered") == {"ant": 3}
    assert [one.path.read_bytes() for one in stayed] == [one.path.read_bytes() for one in moved]
    for lst in (tmp_path / "t_rec" / "lists").iterdir():
        assert lst.read_text() == (tmp_path / "u_rec" / "lists" / lst.name).read_text()


def test_a_split_that_was_moved_stays_valid_without_move(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 9, "dog": 2})
    moved = made(root, replace(wanted(), move=True))
    before = snapshot(tmp_path)
    assert made(root) == moved
    assert snapshot(tmp_path).keys() == before.keys()


def test_an_interrupted_move_is_not_taken_for_a_validation_set(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 9})
    asked = replace(wanted(), move=True)
    (tmp_path / "t_val" / "cat").mkdir(parents=True)
    chosen = min(choose(classes(root), asked.split)["cat"])
    (root / "cat" / chosen).rename(tmp_path / "t_val" / "cat" / chosen)
    with pytest.raises(DataError, match=r"has validation images already\. .*--move.*--undo"):
        made(root)
    assert [one.images for one in made(root, asked)] == [3, 4, 2]


def test_shards_are_written_to_another_folder_beside_no_original(tmp_path: Path) -> None:
    root = tree(tmp_path / "disk" / "t", {"cat": 6})
    made(root, replace(wanted(), out=tmp_path / "mine"))
    assert [one.name for one in (tmp_path / "disk").iterdir()] == ["t"]
    assert (tmp_path / "mine" / "val" / "val.rec").exists()


def test_an_unwritable_folder_for_shards_names_the_option_for_another(tmp_path: Path) -> None:
    root = tree(tmp_path / "images", {"cat": 4, "dog": 4})
    (tmp_path / "images_rec").touch()
    with pytest.raises(DataError, match=r"images_rec: cannot be written .*another .* --out$"):
        made(root, wanted())


def test_a_folder_without_images_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t" / "cat").mkdir(parents=True)
    (tmp_path / "t" / "cat" / "notes.txt").write_text("no picture")
    for root in (tmp_path / "t", tmp_path / "none"):
        with pytest.raises(DataError, match=r"expected|no such folder"):
            made(root)


def damaged(data: bytearray, damage: str) -> bytes:
    half = len(data) // 2
    if damage == "a flipped bit":
        data[half] ^= 1
    elif damage == "cut off":
        del data[half:]
    elif damage == "a label changed":
        data[12:16] = b"\0\0\x80\x3f"
    else:
        data += bytes(8)
    return bytes(data)


@pytest.mark.parametrize("at", range(0, 4000, 23))
def test_verify_names_the_record_of_any_changed_byte(shard: Path, at: int) -> None:
    data = bytearray(shard.read_bytes())
    at %= len(data)
    number = (
        bisect([offset for _, offset in recordio.read_index(shard.with_suffix(".idx"))], at) - 1
    )
    data[at] ^= 1 << at % 8
    copy = shard.with_name("copy.rec")
    for ending in (".idx", ".json"):
        copy.with_suffix(ending).write_bytes(shard.with_suffix(ending).read_bytes())
    copy.write_bytes(data)
    with pytest.raises(DataError, match=rf"copy\.rec: (record {number} at|damaged at byte)"):
        verify(copy)


@pytest.fixture(scope="session")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tree(tmp_path_factory.mktemp("shard") / "t", {"cat": 5})
    return made(root, wanted(val=1, train_shards=1))[0].path


@pytest.mark.parametrize("damage", ["a flipped bit", "cut off", "a label changed", "a tail"])
def test_verify_names_what_is_wrong(tmp_path: Path, damage: str) -> None:
    path = made(tree(tmp_path / "t", {"cat": 5}), wanted(val=1, train_shards=1))[0].path
    path.write_bytes(damaged(bytearray(path.read_bytes()), damage))
    with pytest.raises(DataError, match=r"train\.rec: (damaged at byte|record \d|differs)"):
        verify(path)


@pytest.mark.parametrize("damage", ["swapped", "short", "gone"])
def test_verify_names_a_wrong_index(tmp_path: Path, damage: str) -> None:
    path = made(tree(tmp_path / "t", {"cat": 5}), wanted(val=1, train_shards=1))[0].path
    index = path.with_suffix(".idx")
    first, second, *rest = index.read_text().splitlines(keepends=True)
    index.write_text("".join({"swapped": [second, first, *rest], "short": [first]}.get(damage, [])))
    with pytest.raises(DataError, match=r"train\.rec: record \d"):
        verify(path)


def test_shards_of_others_are_read_back_without_a_manifest_or_an_index(tmp_path: Path) -> None:
    path = made(tree(tmp_path / "t", {"cat": 5}), wanted(val=1, train_shards=1))[0].path
    path.with_suffix(".json").unlink()
    assert verify(path).missing == ("manifest",)
    path.with_suffix(".idx").unlink()
    assert verify(path).missing == ("index", "manifest")
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(DataError, match=r"train\.rec: damaged at byte"):
        verify(path)


@pytest.mark.parametrize("name", [b"x\ty.jpg", b"x\ry.jpg", b"x\ny.jpg", b"x\xff.jpg"])
def test_a_name_that_a_list_cannot_hold_is_refused(tmp_path: Path, name: bytes) -> None:
    root = tree(tmp_path / "t", {"cat": 9})
    Path(os.fsdecode(bytes(root / "cat") + b"/" + name)).write_bytes(jpeg(70, 90))
    with pytest.raises(DataError, match="expected a name without control"):
        made(root, wanted(val=8))


def test_names_with_spaces_and_other_scripts_are_packed(tmp_path: Path) -> None:
    root = tree(tmp_path / "t t", {"kissa ja \u732b": 5})
    (root / "kissa ja \u732b" / "-a b\u00e9.JPG").write_bytes(jpeg(70, 90))
    assert sum(shard.images for shard in made(root)) == 6


def test_hidden_folders_are_no_classes(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 5, ".git": 5})
    assert list(classes(root)) == ["cat"]


def test_headers_tell_labels_and_sizes_without_reading_images(tmp_path: Path) -> None:
    path = made(tree(tmp_path / "t", {"cat": 5, "dog": 5}))[0].path
    found = list(recordio.headers(path))
    whole = [unpack(payload, "") for _, payload in records(path)]
    assert [(one.index, one.labels, size) for one, size in found] == [
        (one.index, one.labels, len(one.image)) for one in whole
    ]
