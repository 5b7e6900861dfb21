"""From a labelled tree to shards that read back, and what is refused on the way."""

import json
import os
import signal
import subprocess
import sys
import time
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import SpecError
from bench.shards import count_images, merged_index, shards
from im2rec_tools import listing
from im2rec_tools.codec import Recipe, check, encode
from im2rec_tools.errors import DataError
from im2rec_tools.listing import Entry
from im2rec_tools.pack import manifest
from im2rec_tools.prepare import Shard, Wanted, prepare
from im2rec_tools.recordio import records, unpack
from im2rec_tools.sample import PHOTOGRAPHS, sample
from im2rec_tools.split import split
from im2rec_tools.tree import classes
from im2rec_tools.verify import verify
from tests.test_job import MARK, left_over

ROOT = Path(__file__).parent.parent
SMALL = Wanted(val_per_class=2, train_shards=2, recipe=Recipe(short_edge=64))


def jpeg(height: int, width: int, seed: int = 0) -> bytes:
    noise = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    return cv2.imencode(".jpg", cv2.resize(noise, (width, height)))[1].tobytes()


def tree(root: Path, counts: dict[str, int]) -> Path:
    for name, count in counts.items():
        (root / name).mkdir(parents=True)
        for number in range(count):
            (root / name / f"{number}.jpg").write_bytes(jpeg(70 + number, 90, number))
    return root


def made(root: Path, wanted: Wanted = SMALL) -> list[Shard]:
    return [update for update in prepare(root, wanted) if isinstance(update, Shard)]


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


def test_bad_images_are_left_out_and_named(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 9})
    good = (root / "cat" / "0.jpg").read_bytes()
    bad = {"text.jpg": b"hello", "empty.jpg": b"", "cut.jpg": good[: len(good) // 2]}
    for name, data in bad.items():
        (root / "cat" / name).write_bytes(data)
    found = made(root, Wanted(val_per_class=6, train_shards=1, recipe=Recipe(short_edge=64)))
    left_out = {line.partition(":")[0] for shard in found for line in shard.bad}
    assert left_out == {f"cat/{name}" for name in bad}
    assert sum(shard.images for shard in found) == 9


def test_verify_finds_one_flipped_byte(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 5})
    path = made(root, Wanted(val_per_class=1, train_shards=1))[0].path
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"train\.rec"):
        verify(path)


def test_larger_images_are_scaled_down_and_smaller_ones_kept() -> None:
    recipe = Recipe(short_edge=64)
    assert check(encode(jpeg(128, 200), recipe)) == (64, 100)
    assert check(encode(jpeg(900, 600), recipe)) == (96, 64)
    assert check(encode(jpeg(40, 50), recipe)) == (40, 50)
    assert check(encode(jpeg(40, 50), Recipe(short_edge=64, smaller="enlarge"))) == (64, 80)


def test_grey_and_png_images_are_packed_too() -> None:
    grey = cv2.imencode(".jpg", np.full((80, 100), 90, np.uint8))[1].tobytes()
    png = cv2.imencode(".png", np.full((80, 100, 4), 90, np.uint8))[1].tobytes()
    for data in (grey, png):
        assert check(encode(data, Recipe(short_edge=40))) == (40, 50)


def test_a_photograph_taken_sideways_stands_upright() -> None:
    plain = jpeg(80, 120)
    # An EXIF block with orientation 6: turn by a quarter.
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    data = plain[:2] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + plain[2:]
    assert check(encode(data, Recipe(short_edge=40))) == (60, 40)


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


def test_a_job_reads_the_rec_files_of_a_folder_and_no_others(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 6, "dog": 6})
    made(root)
    folder = str(tmp_path / "t_rec" / "train")
    assert [path.name for path in shards(folder)] == ["train_0.rec", "train_1.rec"]
    assert count_images(shards(folder)) == 8
    lines = (merged_index(shards(folder)) or "").splitlines()
    assert [int(line.split("\t")[0]) for line in lines] == list(range(8))
    joined = b"".join(path.read_bytes() for path in shards(folder))
    for line in lines:
        at = int(line.split("\t")[1])
        assert joined[at : at + 4] == bytes.fromhex("0a23d7ce")


@pytest.mark.parametrize("data", ["none.rec", "empty"])
def test_data_that_is_not_there_is_refused(tmp_path: Path, data: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SpecError, match=r"no such file|found none"):
        count_images(shards(str(tmp_path / data)))


def test_a_manifest_that_is_none_is_refused(tmp_path: Path) -> None:
    rec = Path(tmp_path / "x.rec")
    rec.with_suffix(".json").write_text(json.dumps({"images": 1}))
    with pytest.raises(DataError, match="not a manifest"):
        manifest(rec)


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


def test_an_image_that_is_too_large_is_bad_and_no_more(tmp_path: Path) -> None:
    size = (100_000).to_bytes(4, "big")
    chunk = b"IHDR" + size + size + b"\x08\x02\x00\x00\x00"
    bomb = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\r" + chunk + zlib.crc32(chunk).to_bytes(4, "big")
    for data in (bomb, cv2.imencode(".png", np.zeros((3000, 1, 3), np.uint8))[1].tobytes()):
        with pytest.raises(DataError, match=r"cannot be decoded or encoded|not an image"):
            encode(data, Recipe(short_edge=64, smaller="enlarge"))


@pytest.mark.program
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_packing_ends_with_the_process_that_packs(
    tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(*MARK.split("="))
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
    deadline = time.monotonic() + 10
    while left_over() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left_over() == []
    assert sum(shard.images for shard in made(root)) == 1000
