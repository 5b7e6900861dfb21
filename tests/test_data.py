"""From a labelled tree to shards that read back, and what is refused on the way."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import cv2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from im2rec_tools import listing
from im2rec_tools.codec import Recipe, check
from im2rec_tools.errors import DataError
from im2rec_tools.listing import Entry
from im2rec_tools.prepare import Wanted
from im2rec_tools.recordio import records, unpack
from im2rec_tools.sample import PHOTOGRAPHS, sample
from im2rec_tools.split import split
from im2rec_tools.tree import classes
from im2rec_tools.verify import verify
from tests.jobs import left_over, until
from tests.trees import jpeg, made, tree

ROOT = Path(__file__).parent.parent


def test_the_sample_has_ten_classes_and_700_photographs(tmp_path: Path) -> None:
    *_, last = sample(tmp_path / "s", images_per_class=70)
    found = classes(tmp_path / "s")
    assert set(found) == set(PHOTOGRAPHS)
    assert len(found) >= 8
    assert last.done == sum(len(paths) for paths in found.values()) == 700
    sizes = {cv2.imread(str(path)).shape for path in found["cat"]}
    assert len(sizes) > 50
    assert min(min(shape[:2]) for shape in sizes) >= 256


def test_a_sample_is_the_same_each_time_and_not_made_twice(tmp_path: Path) -> None:
    for name in ("a", "b"):
        list(sample(tmp_path / name, images_per_class=1))
    first, second = (sorted((tmp_path / name).rglob("*.jpg")) for name in ("a", "b"))
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    before = first[0].stat().st_mtime_ns
    assert [one.done for one in sample(tmp_path / "a", images_per_class=1)] == [10]
    assert first[0].stat().st_mtime_ns == before


def test_a_sample_never_overwrites_something_else(tmp_path: Path) -> None:
    tree(tmp_path / "mine", {"dog": 1})
    with pytest.raises(DataError, match="expected an empty or new folder"):
        list(sample(tmp_path / "mine", images_per_class=1))


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
    assert sorted(record.label for record in packed) == [0.0] * 7 + [1.0] * 5
    assert {min(check(record.image)) for record in packed} == {64}


def test_preparing_again_packs_nothing_again(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 5, "dog": 5})
    first = made(root)
    before = [shard.path.stat().st_mtime_ns for shard in first]
    assert made(root) == first
    assert [shard.path.stat().st_mtime_ns for shard in first] == before
    other = Wanted(val_per_class=2, train_shards=2, recipe=Recipe(short_edge=32))
    assert made(root, other)[0].bytes < first[0].bytes


def test_shards_of_other_settings_are_not_read_beside_the_new_ones(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 6, "dog": 6})
    made(root, Wanted(val_per_class=2, train_shards=3, recipe=Recipe(short_edge=64)))
    with pytest.raises(DataError, match=r"train_2\.rec: was packed with other settings"):
        made(root)


def test_the_split_is_seeded_disjoint_and_done_once(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 9, "dog": 7})
    assert split(root, images_per_class=2, seed=1) == 4
    train, val = classes(root), classes(tmp_path / "t_val")
    assert {name: len(paths) for name, paths in train.items()} == {"cat": 7, "dog": 5}
    names = {path.name for path in val["cat"]}
    assert not names & {path.name for path in train["cat"]}
    assert split(root, images_per_class=2, seed=1) == 4
    assert {path.name for path in classes(tmp_path / "t_val")["cat"]} == names


def test_an_interrupted_split_goes_on_where_it_was(tmp_path: Path) -> None:
    root, same = (tree(tmp_path / name, {"cat": 9}) for name in ("t", "u"))
    split(same, images_per_class=3)
    chosen = sorted(path.name for path in classes(tmp_path / "u_val")["cat"])
    (tmp_path / "t_val" / "cat").mkdir(parents=True)
    (root / "cat" / chosen[0]).rename(tmp_path / "t_val" / "cat" / chosen[0])
    assert split(root, images_per_class=3) == 3
    assert sorted(path.name for path in classes(tmp_path / "t_val")["cat"]) == chosen


def test_a_class_that_validation_would_empty_is_refused_before_anything_moves(
    tmp_path: Path,
) -> None:
    root = tree(tmp_path / "t", {"cat": 9, "dog": 2})
    with pytest.raises(DataError, match="dog: has 2 images; expected more than the 2 "):
        split(root, images_per_class=2)
    assert len(classes(root)["cat"]) == 9


def test_a_folder_without_images_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t" / "cat").mkdir(parents=True)
    (tmp_path / "t" / "cat" / "notes.txt").write_text("no picture")
    for root in (tmp_path / "t", tmp_path / "none"):
        with pytest.raises(DataError, match="expected"):
            made(root)


def test_verify_finds_one_flipped_byte(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 5})
    path = made(root, Wanted(val_per_class=1, train_shards=1))[0].path
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"train\.rec"):
        verify(path)


paths = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r"), min_size=1)


@given(st.builds(Entry, index=st.integers(0), label=st.integers(0, 21840).map(float), path=paths))
def test_a_list_entry_survives_its_line(entry: Entry) -> None:
    assert listing.parse(listing.emit(entry), "here") == entry


@given(st.integers(1, 200), st.integers(1, 16))
def test_chunks_are_whole_and_even(count: int, parts: int) -> None:
    everything = [Entry(index=n, label=0, path=str(n)) for n in range(count)]
    found = listing.chunks(everything, parts)
    assert [entry for chunk in found for entry in chunk] == everything
    assert len(found) == parts
    assert max(map(len, found)) - min(map(len, found)) <= 1


@pytest.mark.parametrize("name", [b"x\ty.jpg", b"x\ry.jpg", b"x\ny.jpg", b"x\xff.jpg"])
def test_a_name_that_a_list_cannot_hold_is_refused_before_anything_moves(
    tmp_path: Path, name: bytes
) -> None:
    root = tree(tmp_path / "t", {"cat": 9})
    Path(os.fsdecode(bytes(root / "cat") + b"/" + name)).write_bytes(jpeg(70, 90))
    with pytest.raises(DataError, match="cannot hold this name"):
        made(root)
    assert len(list((root / "cat").iterdir())) == 10


def test_names_with_spaces_and_other_scripts_are_packed(tmp_path: Path) -> None:
    root = tree(tmp_path / "t t", {"kissa ja \u732b": 5})
    (root / "kissa ja \u732b" / "-a b\u00e9.JPG").write_bytes(jpeg(70, 90))
    assert sum(shard.images for shard in made(root)) == 6


def test_hidden_folders_are_no_classes(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 5, ".git": 5})
    assert list(classes(root)) == ["cat"]


@pytest.mark.program
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_packing_ends_with_the_process_that_packs(tmp_path: Path, number: int) -> None:
    root = tree(tmp_path / "t", {"cat": 1000})
    code = (
        "import sys; from pathlib import Path\n"
        "from im2rec_tools.prepare import Wanted, prepare\n"
        "for update in prepare(Path(sys.argv[1]), Wanted(val_per_class=2, train_shards=2)):\n"
        "    if update[1].done > 0: print(flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(root)], cwd=ROOT, stdout=subprocess.PIPE
    ) as packing:
        assert packing.stdout is not None
        assert packing.stdout.readline() == b"\n"
        packing.send_signal(number)
    assert until(lambda: left_over() == [], 10)
    assert sum(shard.images for shard in made(root)) == 1000
