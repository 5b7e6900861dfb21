"""Damaged images, shards, tars and manifests: every reader rejects them in a line."""

import io
import json
import os
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.data.shards import count_images
from im2rec_tools.commands.shards import info
from im2rec_tools.errors import DamagedTarError, DataError, brief, quoted
from im2rec_tools.formats import lists
from im2rec_tools.formats.recordio import MAGIC, ImageRecord, frame, headers, pack
from im2rec_tools.formats.tars import members
from im2rec_tools.packing import manifest
from im2rec_tools.packing.verify import verify
from tests.support.data.trees import jpeg, made, tree


def part(kind: int, data: bytes) -> bytes:
    head = struct.pack("<II", MAGIC, kind << 29 | len(data))
    return head + data + bytes(-len(data) % 4)


def shard(path: Path, *more: bytes) -> Path:
    images = (ImageRecord(index=n, labels=(1.0,), image=jpeg(8, 8)) for n in range(2))
    path.write_bytes(b"".join((*map(frame, map(pack, images)), *more)))
    return path


def odd_image() -> bytes:
    """Return a record whose image ends a byte before a multiple of four."""
    image = jpeg(8, 8)
    image += bytes((3 - len(image)) % 4)
    return frame(pack(ImageRecord(index=2, labels=(1.0,), image=image)))


WRONG = {
    "a part of no kind": part(5, bytes(25)),
    "a record without an end": part(1, bytes(32)),
    "an end without a beginning": part(3, bytes(32)),
    "two beginnings": part(1, bytes(32)) + part(0, bytes(32)),
    "padding that is no zeros": odd_image()[:-1] + b"\1",
    "a header that is cut off": part(0, bytes(32))[:6],
    "a record that is cut off": part(0, bytes(32))[:-4],
    "another beginning": b"\0" * 40,
}


@pytest.mark.parametrize("more", WRONG.values(), ids=WRONG)
def test_info_and_training_refuse_the_rec_that_verify_refuses(tmp_path: Path, more: bytes) -> None:
    rec = shard(tmp_path / "x.rec")
    assert (verify(rec).images, len(info(rec).sizes), count_images((rec,))) == (2, 2, 2)
    shard(rec, more)
    readers: list[Callable[[], object]] = [
        lambda: verify(rec),
        lambda: info(rec),
        lambda: count_images((rec,)),
    ]
    for read in readers:
        with pytest.raises(Exception, match=r"x\.rec: damaged at byte \d+ of \d+; ") as refused:
            read()
        assert type(refused.value).__name__ in {"DataError", "SpecError"}


def test_pipes_among_shards_and_lists_are_refused(tmp_path: Path) -> None:
    for name in ("x.rec", "x.lst"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match=r"x\.rec: no such file"):
        info(tmp_path / "x.rec")
    with pytest.raises(DataError, match=r"x\.lst: expected an image list, got no regular file"):
        lists.check(tmp_path / "x.lst")


def test_info_refuses_a_shard_that_has_not_what_its_index_and_manifest_say(tmp_path: Path) -> None:
    rec = made(tree(tmp_path / "t", {"cat": 5, "dog": 5}))[0].path
    good = rec.with_suffix(".idx").read_text()
    rec.with_suffix(".idx").write_text("".join(good.splitlines(keepends=True)[:-1]))
    with pytest.raises(DataError, match="as in the index, got"):
        info(rec)
    rec.with_suffix(".idx").write_text(good)
    said = json.loads(rec.with_suffix(".json").read_text())
    rec.with_suffix(".json").write_text(json.dumps(said | {"images": 1}))
    with pytest.raises(DataError, match="expected 1 records, as in the manifest"):
        info(rec)


def test_a_record_of_many_labels_has_all_of_them_in_its_header(tmp_path: Path) -> None:
    labels = tuple(map(float, range(20_000)))
    rec = tmp_path / "x.rec"
    rec.write_bytes(frame(pack(ImageRecord(index=0, labels=labels, image=b"jpeg"))))
    ((record, size),) = headers(rec)
    assert (record.labels, size) == (labels, 4)


def test_labels_that_hold_the_mark_of_a_record_are_read(tmp_path: Path) -> None:
    (mark,) = struct.unpack("<f", struct.pack("<I", MAGIC))
    labels = (1.0, mark, 2.0, mark)
    rec = tmp_path / "x.rec"
    rec.write_bytes(frame(pack(ImageRecord(index=0, labels=labels, image=b"jpeg"))))
    ((record, size),) = headers(rec)
    assert (record.labels, size) == (labels, 4)


def test_a_count_of_labels_that_no_record_has_is_refused(tmp_path: Path) -> None:
    rec = tmp_path / "x.rec"
    rec.write_bytes(frame(struct.pack("<IfQQ", 2**32 - 1, 0, 0, 0) + bytes(40)))
    for read in (verify, info):
        with pytest.raises(DataError, match="expected at most 1048576 labels"):
            read(rec)


@pytest.mark.parametrize(
    "wrong",
    [
        {"bad": float("inf")},
        {"bad": -1},
        {"images": 10**400},
        {"records_crc32c": 5},
        {"versions": []},
        {"versions": {"a": 1}},
        {"recipe": 3},
        {"crc32c": None},
        {"bytes": "many"},
        {"schema": None},
    ],
    ids=str,
)
def test_a_manifest_of_other_types_is_no_manifest(tmp_path: Path, wrong: dict[str, object]) -> None:
    rec = made(tree(tmp_path / "t", {"cat": 5, "dog": 5}))[0].path
    beside = rec.with_suffix(".json")
    beside.write_text(json.dumps(json.loads(beside.read_text()) | wrong))
    with pytest.raises(
        DataError, match=r"train_0\.json: expected the manifest of a shard, got"
    ) as refused:
        manifest.read(rec)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", [b"", b"[" * 100_000, b"\xff", b"[]", b"3", b'{"schema": 2}'])
def test_what_is_no_manifest_at_all_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "x.json").write_bytes(text)
    with pytest.raises(DataError, match="expected the manifest of a shard, got other data"):
        manifest.read(tmp_path / "x.rec")


def header(kind: bytes, size: bytes, body: bytes = b"") -> bytes:
    """Return a tar header of this kind with these bytes as size, and its content."""
    block = bytearray(tarfile.TarInfo("pax").tobuf(tarfile.USTAR_FORMAT))
    block[124:136], block[156:157] = size.ljust(12, b"\0"), kind
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + body.ljust(-(-len(body) // 512) * 512, b"\0")


def attributes(text: bytes) -> bytes:
    return header(b"x", b"%011o" % len(text), text)


def record_of(name: bytes, value: bytes) -> bytes:
    length = len(name) + len(value) + 3
    length += len(str(length + len(str(length))))
    return b"%d %s=%s\n" % (length, name, value)


def binary(number: int) -> bytes:
    return b"\x80" + number.to_bytes(11, "big")


DAMAGED = {
    "attributes of 2**56 bytes": header(b"x", binary(2**56)),
    "a name of 2**63 bytes": header(b"L", binary(2**63 - 1)),
    "attributes of 2**30 bytes": header(b"x", binary(2**30)),
    "a sparse map of words": attributes(record_of(b"GNU.sparse.map", b"a,b")),
    "a sparse size of words": attributes(
        record_of(b"GNU.sparse.major", b"1")
        + record_of(b"GNU.sparse.minor", b"0")
        + record_of(b"GNU.sparse.realsize", b"x")
    ),
    "a number of many digits": attributes(b"9" * 60_000),
    "attributes of attributes": attributes(record_of(b"a", b"b")) * 3000,
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
@pytest.mark.parametrize("inner", [False, True])
def test_a_tar_with_damaged_headers_is_damaged_and_no_more(
    tmp_path: Path, damage: bytes, inner: bool
) -> None:
    whole = damage + tarfile.TarInfo("n/a.jpg").tobuf() + bytes(1024)
    file = tmp_path / "x.tar"
    if not inner:
        file.write_bytes(whole)
        with pytest.raises(DamagedTarError, match=r"x\.tar: "):
            list(members(file))
        return
    with tarfile.open(file, "w") as tar:
        for name, body in (("bad.tar", whole), ("good.tar", empty())):
            info_of = tarfile.TarInfo(name)
            info_of.size = len(body)
            tar.addfile(info_of, io.BytesIO(body))
    bad, good = (one for one in members(file) if not hasattr(one, "why"))
    with pytest.raises(DamagedTarError, match=r"x\.tar: bad\.tar: "):
        list(members(file, bad))
    assert [one.name for one in members(file, good)] == ["cat.jpg"]


def empty() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("cat.jpg"))
    return data.getvalue()


def test_words_in_error_lines_are_cut_at_sixty_characters() -> None:
    assert quoted("short") == "'short'"
    assert quoted("x" * 60) == repr("x" * 60)
    assert quoted("x" * 70_000) == repr("x" * 60) + "..."
    assert len(quoted(list(range(10_000)))) == 63
    assert quoted(16**5000) == "a long int"
    assert len(brief("word " * 10_000)) == 203
    assert brief("a\nb \ud800") == "a b \\ud800"
