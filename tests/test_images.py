"""What becomes of an image on its way into a shard."""

import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest

from im2rec_tools.codec import Recipe, check, encode
from im2rec_tools.errors import DataError
from im2rec_tools.prepare import Wanted
from tests.trees import jpeg, made, tree


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


def test_an_image_that_is_too_large_is_bad_and_no_more(tmp_path: Path) -> None:
    size = (100_000).to_bytes(4, "big")
    chunk = b"IHDR" + size + size + b"\x08\x02\x00\x00\x00"
    bomb = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\r" + chunk + zlib.crc32(chunk).to_bytes(4, "big")
    for data in (bomb, cv2.imencode(".png", np.zeros((3000, 1, 3), np.uint8))[1].tobytes()):
        with pytest.raises(DataError, match=r"cannot be decoded or encoded|not an image"):
            encode(data, Recipe(short_edge=64, smaller="enlarge"))
