"""Conversion of an image on its way into a shard."""

import contextlib
import io
import random
import struct
import zlib
from collections.abc import Callable
from typing import Literal

import cv2
import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from im2rec_tools.errors import DataError
from im2rec_tools.formats.images import check, encode, size_of
from im2rec_tools.formats.recipe import Recipe
from im2rec_tools.formats.recordio import aligned_magic, in_one_part
from tests.support.data.trees import jpeg, pixels

pytestmark = pytest.mark.pythons


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


def test_an_image_that_is_too_large_is_bad_and_no_more() -> None:
    size = (100_000).to_bytes(4, "big")
    chunk = b"IHDR" + size + size + b"\x08\x02\x00\x00\x00"
    bomb = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\r" + chunk + zlib.crc32(chunk).to_bytes(4, "big")
    thin = cv2.imencode(".png", np.zeros((3000, 1, 3), np.uint8))[1].tobytes()
    for data in (bomb, thin):
        with pytest.raises(DataError, match=r"cannot be decoded|not an image|1x3000 would become"):
            encode(data, Recipe(short_edge=64, smaller="enlarge"))


PIXELS = pixels(jpeg(200, 300))


def pillow(mode: str, kind: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(cv2.cvtColor(PIXELS, cv2.COLOR_BGR2RGB)).convert(mode).save(file, kind)
    return file.getvalue()


def sixteen_bits() -> bytes:
    return cv2.imencode(".png", PIXELS.astype(np.uint16) * 257)[1].tobytes()


KINDS: dict[str, Callable[[], bytes]] = {
    "CMYK": lambda: pillow("CMYK", "JPEG"),
    "grey": lambda: pillow("L", "JPEG"),
    "16 bits": sixteen_bits,
    "palette": lambda: pillow("P", "PNG"),
    "RGBA": lambda: pillow("RGBA", "PNG"),
    "WebP": lambda: pillow("RGB", "WEBP"),
    "PNG": lambda: pillow("RGB", "PNG"),
    "GIF": lambda: pillow("P", "GIF"),
    "TIFF": lambda: pillow("RGB", "TIFF"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("keep_bytes", ["none", "small"])
def test_every_kind_of_image_becomes_a_jpeg_that_looks_like_it(
    kind: str, keep_bytes: Literal["none", "small"]
) -> None:
    data = KINDS[kind]()
    encoded = encode(data, Recipe(short_edge=200, keep_bytes=keep_bytes))
    assert check(encoded) == (200, 300)
    assert encoded.startswith(b"\xff\xd8")
    flag = cv2.IMREAD_GRAYSCALE if kind == "grey" else cv2.IMREAD_COLOR
    found, wanted = (
        cv2.blur(pixels(image, flag), (9, 9)).astype(float) for image in (encoded, data)
    )
    assert np.abs(found - wanted).mean() < 4


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_orientation_stands_as_opencv_shows_it(orientation: int) -> None:
    plain = jpeg(80, 120)
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0"
    exif += bytes([orientation]) + b"\0\0\0\0\0\0"
    data = plain[:2] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + plain[2:]
    upright = pixels(data).astype(float)
    encoded = encode(data, Recipe(short_edge=0, quality=98, keep_bytes="small"))
    found = pixels(encoded).astype(float)
    assert found.shape == upright.shape
    assert np.abs(found - upright).mean() < 4


def test_an_orientation_is_found_behind_fill_bytes_and_other_segments() -> None:
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    segment = b"\xff\xff\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif
    plain = jpeg(80, 120)
    first = 4 + int.from_bytes(plain[4:6], "big")  # behind the JFIF marker
    encoded = encode(plain[:first] + segment + plain[first:], Recipe(short_edge=0))
    assert check(encoded) == (120, 80)


def test_small_jpegs_keep_their_bytes_when_asked_and_only_whole_ones() -> None:
    recipe = Recipe(short_edge=100, keep_bytes="small")
    small = jpeg(80, 120)
    assert encode(small, recipe) == small
    assert check(encode(jpeg(120, 150), recipe)) == (100, 125)
    with pytest.raises(DataError, match="damaged or truncated image"):
        encode(small[:-40], recipe)


def test_raw_pixels_come_back_as_they_were() -> None:
    recipe = Recipe(short_edge=0, encoding="raw")
    raw = encode(cv2.imencode(".png", PIXELS)[1].tobytes(), recipe)
    assert np.array_equal(pixels(raw), PIXELS)


@given(st.binary(max_size=300), st.sampled_from([b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"]))
def test_no_bytes_do_more_than_be_refused(data: bytes, start: bytes) -> None:
    with contextlib.suppress(DataError):
        encode(start + data, Recipe())
    with contextlib.suppress(DataError):
        check(start + data)


@pytest.mark.parametrize("damage", range(200))
def test_the_quick_check_finds_what_full_decoding_finds(damage: int) -> None:
    data, draw = bytearray(jpeg(90, 120, damage)), random.Random(damage)
    if damage % 2:
        data[draw.randrange(len(data) // 2, len(data))] ^= 1 << draw.randrange(8)
    else:
        del data[draw.randrange(len(data) // 2, len(data) - 2) :]
    try:
        simplejpeg.decode_jpeg(bytes(data), strict=True)
        is_whole = True
    except ValueError:
        is_whole = False
    if is_whole:
        assert check(bytes(data)) == (90, 120)
    else:
        with pytest.raises(DataError):
            check(bytes(data))


MAGIC = struct.pack("<I", 0xCED7230A)


@pytest.mark.parametrize("ending", [".jpg", ".png", ".bmp"])
def test_a_picture_with_the_magic_in_it_stays_the_same_picture(ending: str) -> None:
    flat = np.full((16, 16, 3), 90, np.uint8)
    data = cv2.imencode(ending, flat)[1].tobytes()
    if ending == ".bmp":
        data = data[:56] + MAGIC + data[60:]
    elif ending == ".jpg":
        data = data[:2] + b"\xff\xfe\0\x08\0\0" + MAGIC + data[2:]
    else:
        body = b"teXt" + b"\0" * 3 + MAGIC
        chunk = struct.pack(">I", 7) + body + struct.pack(">I", zlib.crc32(body))
        data = data[:33] + chunk + data[33:]
    assert aligned_magic(data)
    moved = in_one_part(data)
    assert not aligned_magic(moved)
    assert np.array_equal(pixels(data), pixels(moved))


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(1, 600))
def test_sizes_are_upstreams_whatever_the_decoder_scales(
    height: int, width: int, edge: int
) -> None:
    size = (edge, height * edge // width)
    if height <= width:
        size = (width * edge // height, edge)
    recipe = Recipe(short_edge=edge, smaller="enlarge")
    with contextlib.suppress(DataError):
        assert size_of(height, width, recipe) == size


def test_a_large_image_has_the_size_that_its_own_size_says() -> None:
    for height, width in ((999, 777), (1234, 1777), (901, 3001)):
        encoded = encode(jpeg(height, width), Recipe(short_edge=64))
        assert check(encoded)[::-1] == size_of(height, width, Recipe(short_edge=64))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("shape", [(81, 120), (120, 81)])
def test_center_crops_are_cut_from_the_turned_image(
    orientation: int, shape: tuple[int, int]
) -> None:
    plain = cv2.imencode(".jpg", PIXELS[: shape[0], : shape[1]], [cv2.IMWRITE_JPEG_QUALITY, 98])[1]
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0"
    exif += bytes([orientation]) + b"\0\0\0\0\0\0"
    data = plain.tobytes()
    data = data[:2] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + data[2:]
    upright = pixels(data)  # OpenCV turns it
    height, width = upright.shape[:2]
    edge = min(height, width)
    top, left = (height - edge) // 2, (width - edge) // 2
    cropped = upright[top : top + edge, left : left + edge]
    recipe = Recipe(short_edge=0, center_crop=True, encoding="png")
    assert np.array_equal(pixels(encode(data, recipe)), cropped)
