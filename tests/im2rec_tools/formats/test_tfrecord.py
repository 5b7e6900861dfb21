"""TFRecord files: framing, checksums and fields of ImageNet, in both directions."""

import gzip
import struct
from pathlib import Path

import pytest
from google_crc32c import extend, value
from hypothesis import given
from hypothesis import strategies as st

from im2rec_tools.declarations import FROM_TFRECORD as FROM
from im2rec_tools.declarations import PACK
from im2rec_tools.declarations import TO_TFRECORD as TO
from im2rec_tools.errors import DataError
from im2rec_tools.formats import tfrecord
from im2rec_tools.formats.crc32c import join
from im2rec_tools.formats.recordio import records, unpack
from im2rec_tools.formats.tfrecord import Example
from im2rec_tools.packing.verify import verify
from tests.support.data.trees import jpeg, lines, made, tree

pytestmark = pytest.mark.pythons


@given(st.lists(st.binary(max_size=300), max_size=6))
def test_the_checksum_of_pieces_is_that_of_the_whole(pieces: list[bytes]) -> None:
    crc = 0
    for piece in pieces:
        crc = join(crc, value(piece), len(piece))
    assert crc == value(b"".join(pieces)) == extend(0, b"".join(pieces))


@given(st.binary(max_size=200))
def test_a_record_is_framed_as_tensorflow_does(data: bytes) -> None:
    framed = tfrecord.frame(data)
    assert struct.unpack_from("<Q", framed)[0] == len(data)
    assert framed[12:-4] == data
    assert value(bytes(32)) == 0x8A9136AA  # from RFC 3720, B.4


def test_a_frame_has_masked_checksums_of_its_length_and_its_data() -> None:
    # 0x364B3FB7 is the CRC-32C of "abc" in published tables.
    length = struct.pack("<Q", 3)
    crcs = [((c >> 15 | c << 17) + 0xA282EAD8) & 0xFFFFFFFF for c in (value(length), 0x364B3FB7)]
    expected = length + struct.pack("<I", crcs[0]) + b"abc" + struct.pack("<I", crcs[1])
    assert tfrecord.frame(b"abc") == expected


texts = st.text(st.characters(codec="utf-8"), max_size=20)


@given(
    st.builds(
        Example,
        image=st.binary(min_size=1, max_size=50),
        label=st.integers(0, 1000),
        synset=texts,
        text=texts,
        filename=texts,
        height=st.integers(1, 5000),
        width=st.integers(1, 5000),
        channels=st.sampled_from([1, 3]),
    )
)
def test_an_example_survives_its_protocol_buffer(example: Example) -> None:
    data = tfrecord.emit(example)
    assert tfrecord.parse(data, "here") == example
    assert data == tfrecord.emit(example)


def converted(tmp_path: Path) -> tuple[Path, Path]:
    made(tree(tmp_path / "t", {"cat": 9, "dog": 7}))
    source, target = tmp_path / "t_rec" / "train", tmp_path / "tf"
    labels = str(tmp_path / "t_rec" / "labels.txt")
    said = lines(TO.planned({"path": str(source), "out": str(target), "labels": labels}))
    assert said[-1].startswith("12 images in 2 TFRecord files, 0 existed")
    return source, target


def test_there_and_back_keeps_images_and_labels(tmp_path: Path) -> None:
    source, target = converted(tmp_path)
    names = ["train-00000-of-00002", "train-00001-of-00002"]
    assert sorted(path.name for path in target.glob("train*")) == names
    examples = [
        tfrecord.parse(data, "") for name in names for data in tfrecord.records(target / name)
    ]
    assert {(one.label, one.synset) for one in examples} == {(1, "cat"), (2, "dog")}
    assert all(min(one.height, one.width) == 64 for one in examples)
    said = lines(FROM.planned({"path": str(target), "out": str(tmp_path / "back")}))
    assert said[-1].startswith("12 images in 2 shards, ")
    for number in range(2):
        back = tmp_path / "back" / f"train_{number}.rec"
        assert verify(back).images == 6
        pairs = [
            [(one.labels, one.image) for one in (unpack(data, "") for _, data in records(rec))]
            for rec in (source / back.name, back)
        ]
        assert pairs[0] == pairs[1]


def test_converting_again_makes_nothing_again(tmp_path: Path) -> None:
    source, target = converted(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in target.iterdir()}
    labels = str(tmp_path / "t_rec" / "labels.txt")
    lines(TO.planned({"path": str(source), "out": str(target), "labels": labels}))
    with pytest.raises(DataError, match=r"from other shards or with other options\. Move it away"):
        lines(TO.planned({"path": str(source), "out": str(target)}))
    lines(FROM.planned({"path": str(target), "out": str(tmp_path / "back")}))
    shards = {path: path.stat().st_mtime_ns for path in (tmp_path / "back").iterdir()}
    zero = {"path": str(target), "out": str(tmp_path / "back"), "label_offset": "0"}
    with pytest.raises(DataError, match=r"already exists, and not from .* --label-offset 0"):
        lines(FROM.planned(zero))
    lines(FROM.planned({"path": str(target), "out": str(tmp_path / "back")}))
    made = {path: path.stat().st_mtime_ns for path in target.glob("train*")}
    assert made.items() <= before.items()
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "back").iterdir()} == shards


@pytest.mark.parametrize("at", [0, 9, 40, -2])
def test_a_flipped_bit_is_found_by_its_checksum(tmp_path: Path, at: int) -> None:
    _, target = converted(tmp_path)
    path = target / "train-00000-of-00002"
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(
        DataError, match=r"train-00000-of-00002: record \d at byte .*(wrong|truncated)"
    ):
        lines(FROM.planned({"path": str(target), "out": str(tmp_path / "back")}))
    assert not list((tmp_path / "back").glob("*.rec"))


def test_a_shard_that_is_not_what_was_packed_is_not_converted(tmp_path: Path) -> None:
    made(tree(tmp_path / "t", {"cat": 9, "dog": 7}))
    source, target = tmp_path / "t_rec" / "train", tmp_path / "tf"
    with (source / "train_0.rec").open("r+b") as file:
        file.seek(8 + 4)  # the label of the first record: the image is whole
        file.write(b"\0\0\0\x40")
    with pytest.raises(
        DataError, match=r"train_0\.rec: record 0 at byte 0: differs from the packed"
    ):
        lines(TO.planned({"path": str(source), "out": str(target)}))
    assert not list(target.glob("train-*"))


@pytest.mark.parametrize("cut", [1, 4, 13, 200])
def test_a_file_that_is_cut_off_is_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "train-00000-of-00001"
    path.write_bytes((tfrecord.frame(b"x" * 300) * 2)[:-cut])
    with pytest.raises(DataError, match=r"record 1 at byte 316 of .*: truncated"):
        list(tfrecord.records(path))


def test_a_compressed_file_and_files_of_tensorflow_datasets_are_refused_as_such(
    tmp_path: Path,
) -> None:
    path = tmp_path / "train-00000-of-00001"
    path.write_bytes(gzip.compress(tfrecord.frame(b"x" * 300)))
    with pytest.raises(DataError, match=r"got gzip data\. Decompress .*: mv .* && gunzip .*\.gz$"):
        lines(FROM.planned({"path": str(tmp_path), "out": str(tmp_path / "back")}))
    path.rename(tmp_path / "imagenet2012-train.tfrecord-00000-of-00001")
    with pytest.raises(DataError, match="files of TensorFlow Datasets have other fields"):
        FROM.planned({"path": str(tmp_path), "out": str(tmp_path / "back")})


def test_examples_of_something_else_are_refused(tmp_path: Path) -> None:
    for data, message in (
        (b"\xff\xff", "expected a tf.train"),
        (b"", "expected image/encoded and"),
    ):
        path = tmp_path / "train-00000-of-00001"
        path.write_bytes(tfrecord.frame(data))
        with pytest.raises(DataError, match=message):
            lines(FROM.planned({"path": str(path), "out": str(tmp_path / "back")}))
    example = Example(image=b"hello", label=0, height=1, width=1)
    path.write_bytes(tfrecord.frame(tfrecord.emit(example)))
    with pytest.raises(DataError, match=r"record 0: expected a label of 1 or more, got 0"):
        lines(FROM.planned({"path": str(path), "out": str(tmp_path / "back")}))
    with pytest.raises(DataError, match=r"record 0: not an image"):
        lines(FROM.planned({"path": str(path), "out": f"{tmp_path}/back", "label_offset": "0"}))


def labelled(kind: str, *values: object) -> bytes:
    """Return an Example of an image with a label of this kind."""
    message = tfrecord.example_class()()
    message.features.feature["image/encoded"].bytes_list.value.append(jpeg(70, 70))
    feature = message.features.feature["image/class/label"]
    getattr(feature, f"{kind}_list").value.extend(values)
    data: bytes = message.SerializeToString()
    return data


@pytest.mark.parametrize(
    ("kind", "value", "label"),
    [("int64", 7, 7), ("float", 7.0, 7), ("int64", 2**24, 2**24)],
)
def test_whole_labels_of_every_kind_are_kept(
    tmp_path: Path, kind: str, value: object, label: int
) -> None:
    path = tmp_path / "train-00000-of-00001"
    path.write_bytes(tfrecord.frame(labelled(kind, value)))
    lines(FROM.planned({"path": str(path), "out": str(tmp_path / "back"), "label_offset": "0"}))
    (payload,) = (payload for _, payload in records(tmp_path / "back" / "train.rec"))
    assert unpack(payload, "").labels == (float(label),)


@pytest.mark.parametrize(
    ("kind", "values", "got"),
    [
        ("float", (7.5,), "got 7.5"),
        ("float", (float("nan"),), "got nan"),
        ("float", (float("inf"),), "got inf"),
        ("bytes", (b"7",), "got bytes b'7'"),
        ("int64", (2**24 + 1,), "got 16777217"),
        ("int64", (-(2**24) - 1,), "got -16777217"),
        ("int64", (), "got 0 values"),
        ("int64", (1, 2), "got 2 values"),
    ],
)
def test_a_label_that_a_record_cannot_hold_is_refused_by_record_and_field(
    tmp_path: Path, kind: str, values: tuple[object, ...], got: str
) -> None:
    path = tmp_path / "train-00000-of-00001"
    path.write_bytes(tfrecord.frame(labelled("int64", 1)) + tfrecord.frame(labelled(kind, *values)))
    given = {"path": str(path), "out": str(tmp_path / "back"), "label_offset": "0"}
    with pytest.raises(DataError) as caught:
        lines(FROM.planned(given))
    assert "\n" not in str(caught.value)
    assert "record 1: image/class/label: expected " in str(caught.value)
    assert str(caught.value).endswith(got)
    assert not (tmp_path / "back" / "train.rec").exists()


def test_a_label_that_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"n01": 1})
    (image,) = root.rglob("*.jpg")
    (tmp_path / "a.lst").write_text(f"0\t{2**24}\t{image.relative_to(root)}\n")
    lines(PACK.planned({"prefix": str(tmp_path / "a"), "root": str(root)}))
    given = {"path": str(tmp_path / "a.rec"), "out": str(tmp_path / "tf")}
    with pytest.raises(
        DataError, match=r"record 0 .*within ±2\^24 after --label-offset 1, got 167"
    ):
        lines(TO.planned(given))
    lines(TO.planned({**given, "label_offset": "0"}))
    back = {"path": str(tmp_path / "tf"), "out": str(tmp_path / "back"), "label_offset": "0"}
    lines(FROM.planned(back))
