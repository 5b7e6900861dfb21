"""WebDataset's tars: read by webdataset itself, and converted both ways."""

import gc
import io
import json
import tarfile
import warnings
from pathlib import Path
from typing import Any

import pytest
import webdataset
from hypothesis import given
from hypothesis import strategies as st

from im2rec_tools.declarations import FROM_WEBDATASET as FROM
from im2rec_tools.declarations import TO_WEBDATASET as TO
from im2rec_tools.errors import DataError
from im2rec_tools.formats import webdataset as tars
from im2rec_tools.formats.recordio import ImageRecord, records, unpack
from im2rec_tools.packing.verify import verify
from tests.support.data.datasets import inner
from tests.support.data.shards import write
from tests.support.data.trees import jpeg, lines, made, tree

pytestmark = pytest.mark.pythons

SAMPLE = {"a/1.jpg": jpeg(8, 8), "a/1.cls": b"3"}


def converted(tmp_path: Path) -> tuple[Path, Path]:
    """Convert two shards of 6 images each; return the folders of shards and tars."""
    made(tree(tmp_path / "t", {"cat": 9, "dog": 7}))
    source, target = tmp_path / "t_rec" / "train", tmp_path / "tars"
    said = lines(TO.planned({"path": str(source), "out": str(target)}))
    assert said[-1].startswith("12 images in 2 tar files, 0 existed: ")
    return source, target


def images(rec: Path) -> list[tuple[tuple[float, ...], bytes]]:
    return [(one.labels, one.image) for one in (unpack(data, "") for _, data in records(rec))]


def imported(tmp_path: Path, files: dict[str, bytes]) -> list[tuple[tuple[float, ...], bytes]]:
    """Convert a tar with these files to a shard, and return its images."""
    (tmp_path / "train-0.tar").write_bytes(inner(files))
    lines(FROM.planned({"path": str(tmp_path / "train-0.tar"), "out": str(tmp_path / "back")}))
    return images(tmp_path / "back" / "train.rec")


def read_by_webdataset(urls: str) -> tuple[list[Any], list[Any]]:
    """Return the samples as bytes and decoded; webdataset leaves the files open."""
    given: dict[str, Any] = {"shardshuffle": False, "empty_check": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        raw = list(webdataset.WebDataset(urls, **given).to_tuple("jpg", "cls"))
        found = webdataset.WebDataset(urls, **given).decode("rgb8").to_tuple("jpg", "cls")
        decoded = list(found)
        del found
        gc.collect()
    return raw, decoded


def test_webdataset_reads_the_images_and_labels_of_the_shards(tmp_path: Path) -> None:
    source, target = converted(tmp_path)
    raw, decoded = read_by_webdataset(f"{target}/train-{{000000..000001}}.tar")
    wanted = [pair for rec in sorted(source.glob("*.rec")) for pair in images(rec)]
    assert [((float(label),), image) for image, label in raw] == wanted
    assert {(image.shape[2], type(label)) for image, label in decoded} == {(3, int)}


def test_there_and_back_keeps_images_and_labels(tmp_path: Path) -> None:
    source, target = converted(tmp_path)
    given = {"path": str(target), "out": str(tmp_path / "back")}
    assert lines(FROM.planned(given))[-1].startswith("12 images in 2 shards, ")
    for number in range(2):
        back = tmp_path / "back" / f"train_{number}.rec"
        assert verify(back).images == 6
        assert images(back) == images(source / back.name)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.*")}
    lines(TO.planned({"path": str(source), "out": str(target)}))
    lines(FROM.planned(given))
    assert {path: path.stat().st_mtime_ns for path in before} | {
        target / "to_webdataset_train.json": before[target / "to_webdataset_train.json"]
    } == before


def test_a_tar_that_webdataset_wrote_is_read(tmp_path: Path) -> None:
    with webdataset.TarWriter(str(tmp_path / "train-000000.tar")) as writer:
        writer.write({"__key__": "n01/cat", "jpg": jpeg(8, 8), "cls": 7})
        writer.write({"__key__": "n01/dog", "jpg": jpeg(8, 8, 1), "json": {"label": 8}})
    lines(FROM.planned({"path": str(tmp_path), "out": str(tmp_path / "back")}))
    assert images(tmp_path / "back" / "train.rec") == [
        ((7.0,), jpeg(8, 8)),
        ((8.0,), jpeg(8, 8, 1)),
    ]


@given(
    st.lists(st.floats(-(2**24), 2**24, width=32), min_size=1, max_size=9),
    st.integers(0, 2**64 - 1),
)
def test_any_labels_survive_a_sample(labels: list[float], index: int) -> None:
    record = ImageRecord(index=index, labels=tuple(labels), image=jpeg(8, 8))
    data = tars.emit(record, "here") + tars.END
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        files = {one.name: archive.extractfile(one) for one in archive}
    found = {name.partition(".")[2]: file.read() for name, file in files.items() if file}
    assert found["jpg"] == record.image
    if "cls" in found:
        assert (float(found["cls"]),) == record.labels
    else:
        assert tuple(json.loads(found["json"])["labels"]) == record.labels


def test_detection_labels_come_back_from_json(tmp_path: Path) -> None:
    labels = (2.0, 5.0, 1.0, 0.25, 0.5, 0.75, 1.0)
    files = {"1.jpg": jpeg(8, 8), "1.json": json.dumps({"labels": labels}).encode()}
    assert imported(tmp_path, files) == [(labels, jpeg(8, 8))]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"1.cls": b"3"}, "1: expected one image per sample, got cls"),
        ({"1.jpg": b"", "1.png": b"", "1.cls": b"3"}, "got cls, jpg, png"),
        ({"1.jpg": b""}, r"1: expected a label in a \.cls or \.json file, got jpg"),
        ({"1.jpg": b"", "1.cls": b"three"}, r"1\.cls: expected a whole number .*got b'three'"),
        ({"1.jpg": b"", "1.cls": b"1_0"}, r"1\.cls: expected a whole number"),
        ({"1.jpg": b"", "1.cls": b"16777217"}, r"up to 2\^24, got b'16777217'"),
        ({"1.jpg": b"", "1.cls": b"9" * 9999}, r"1\.cls: expected a whole number"),
        ({"1.jpg": b"", "1.json": b"[" * 9999}, r"1\.json: expected a whole number"),
        ({"1.jpg": b"", "1.json": b'{"labels": []}'}, r"1\.json: expected"),
        ({"1.jpg": b"", "1.json": b'{"labels": [NaN]}'}, r"1\.json: expected"),
        ({"1.jpg": b"", "1.json": b'{"labels": ["1"]}'}, r"1\.json: expected"),
        ({"1.jpg": b"", "1.json": b'{"other": 1}'}, r"1\.json: expected"),
        ({"1.jpg": b"", "1.json": b"3"}, r"1\.json: expected"),
        ({"1.jpg": b"no image", "1.cls": b"3"}, "1: not an image that OpenCV can decode"),
        ({"1.jpg": b"", "1.cls": b" " * (1 << 20)}, "expected files below 1048576 bytes"),
        ({"1.jpg": b"", "1.JPG": b"", "1.cls": b"3"}, r"1\.JPG: occurs twice"),
        ({"../1.jpg": b"", "../1.cls": b"3"}, "its name leads out of the folder"),
        ({}, "expected images, got none"),
    ],
)
def test_a_sample_that_is_no_image_with_a_label_is_rejected_in_one_line(
    tmp_path: Path, files: dict[str, bytes], message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        imported(tmp_path, files)
    assert "\n" not in str(caught.value)
    assert "train-0.tar" in str(caught.value)
    assert not list((tmp_path / "back").glob("*.rec"))


def test_files_that_webdataset_skips_are_skipped(tmp_path: Path) -> None:
    more = {"__index__": b"", "a/.hidden.jpg": b"", "README": b"", "a/1.txt": b"a cat"}
    assert imported(tmp_path, {**SAMPLE, **more}) == [((3.0,), jpeg(8, 8))]


def test_a_tar_that_is_cut_off_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "train-0.tar"
    path.write_bytes(inner({**SAMPLE, "a/2.jpg": jpeg(64, 64), "a/2.cls": b"1"})[:2048])
    with pytest.raises(DataError, match=r"train-0\.tar: (truncated|damaged)"):
        lines(FROM.planned({"path": str(path), "out": str(tmp_path / "back")}))


def test_a_folder_without_such_files_and_another_image_are_rejected(tmp_path: Path) -> None:
    given = {"path": str(tmp_path), "out": str(tmp_path / "back")}
    with pytest.raises(DataError, match=r"expected files train-NUMBER\.tar, got none"):
        FROM.planned(given)
    with pytest.raises(DataError, match="no such file or folder"):
        FROM.planned({**given, "path": str(tmp_path / "none")})
    payload = b"\0" * 24 + b"GIF89a"
    write(tmp_path / "a.rec", [payload])
    with pytest.raises(DataError, match="expected a JPEG, PNG or BMP, got another image"):
        lines(TO.planned({"path": str(tmp_path / "a.rec"), "out": str(tmp_path / "tars")}))
