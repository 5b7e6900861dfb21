"""Gzip-compressed tars: the same files as from plain ones, up to a limit."""

import gzip
from pathlib import Path

import pytest

from im2rec_tools.declarations import PACK, PREPARE
from im2rec_tools.errors import DataError
from im2rec_tools.files import lock
from im2rec_tools.formats import compression
from tests.support.data.datasets import inner, tar_of_tars, untar
from tests.support.data.trees import lines, tree

pytestmark = pytest.mark.pythons


def compressed(tar: Path) -> Path:
    """Compress a tar; its name stays, as only the contents count."""
    tar.write_bytes(gzip.compress(tar.read_bytes(), 1))
    return tar


def packed(tmp_path: Path, name: str, tar: Path) -> bytes:
    given = {"prefix": str(tmp_path / name / "x"), "root": str(tar), "from_tar": True}
    lines(PACK.planned(given))
    return (tmp_path / name / "x.rec").read_bytes()


def hidden(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.startswith(".")]


def test_a_compressed_tar_gives_the_same_files_and_shards(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"n01": 3, "n02": 2})
    tar = tar_of_tars(tmp_path / "a.tar.gz", root)
    wanted = packed(tmp_path, "plain", tar)
    compressed(tar)
    assert untar(tar, tmp_path / "full")[-1].startswith("5 files, 2 classes unpacked")
    assert {path.name: path.read_bytes() for path in root.rglob("*.jpg")} == {
        path.name: path.read_bytes() for path in (tmp_path / "full").rglob("*.jpg")
    }
    assert packed(tmp_path, "packed", tar) == wanted
    assert hidden(tmp_path / "full") == hidden(tmp_path / "packed") == []


def test_class_tars_of_a_folder_may_be_compressed(tmp_path: Path) -> None:
    tars = tmp_path / "tars"
    tars.mkdir()
    plain = inner({"a.jpg": b"a"})
    (tars / "n1.tar").write_bytes(plain)
    (tars / "n2.tar.gz").write_bytes(gzip.compress(plain))
    (tars / "n3.tgz").write_bytes(gzip.compress(plain)[:-9])
    with pytest.raises(DataError, match=r"2 files, 2 classes .* 1 class tars are damaged"):
        untar(tars, tmp_path / "u")
    assert sorted(path.name for path in (tmp_path / "u").iterdir()) == ["n1", "n2"]
    (tars / "n3.tgz").write_bytes(gzip.compress(plain))
    assert "1 classes unpacked" in untar(tars, tmp_path / "u")[-1]
    assert not (tmp_path / "u.bad.tsv").exists()


def test_a_compressed_class_tar_within_a_tar_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(inner({"n1.tar": gzip.compress(inner({"a.jpg": b"a"}))}))
    with pytest.raises(DataError, match="1 class tars are damaged"):
        untar(tmp_path / "a.tar", tmp_path / "u")
    assert "gzip-compressed within the tar" in (tmp_path / "u.bad.tsv").read_text()


def test_bounding_boxes_come_from_their_compressed_tar(tmp_path: Path) -> None:
    files = {f"n0{n % 2}/{n}.xml": b"<annotation/>" for n in range(40)}
    (tmp_path / "boxes.tar.gz").write_bytes(gzip.compress(inner(files)))
    untar(tmp_path / "boxes.tar.gz", tmp_path / "boxes")
    assert len(list((tmp_path / "boxes" / "n01").glob("*.xml"))) == 20


def test_a_dry_run_decompresses_nothing(tmp_path: Path) -> None:
    tar = compressed(tar_of_tars(tmp_path / "a.tgz", tree(tmp_path / "t", {"n01": 60})))
    (line, *_) = PREPARE.planned({"dir": str(tar), "root": str(tmp_path / "x")}).says
    assert line == f"would decompress {tar} in {tmp_path}/x, and unpack it to {tmp_path}/x"
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tgz", "a.tar"])
def test_prepare_names_the_tree_without_the_extensions(tmp_path: Path, name: str) -> None:
    tar = compressed(tar_of_tars(tmp_path / name, tree(tmp_path / "t", {"n01": 9})))
    lines(PREPARE.planned({"dir": str(tar), "val_per_class": "2", "train_shards": "1"}))
    assert len(list((tmp_path / "a" / "n01").iterdir())) == 9
    assert (tmp_path / "a_rec" / "train" / "train.rec").is_file()


def test_a_full_disk_ends_the_command_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "create", lambda _: Path("/dev/full").open("wb"))  # noqa: SIM115
    tar = compressed(tar_of_tars(tmp_path / "a.tar.gz", tree(tmp_path / "t", {"n01": 3})))
    with pytest.raises(DataError, match=r"cannot be decompressed in .*full \(No space left"):
        untar(tar, tmp_path / "full")
    assert not (tmp_path / "full").exists()


def test_a_copy_that_a_killed_run_left_is_replaced_and_removed(tmp_path: Path) -> None:
    tar = compressed(tar_of_tars(tmp_path / "a.tar.gz", tree(tmp_path / "t", {"n01": 3})))
    left = tmp_path / "full" / ".a.tar.gz.part" / "a.tar.gz"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"left" * 10**5)
    assert untar(tar, tmp_path / "full")[-1].startswith("3 files, 1 classes unpacked")
    assert hidden(tmp_path / "full") == []
    with lock(left.parent), pytest.raises(DataError, match="another run is writing"):
        untar(tar, tmp_path / "full")


def test_a_bomb_ends_at_the_limit_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compression, "MOST_BYTES", 10**6)
    bomb = tmp_path / "bomb.tar.gz"
    bomb.write_bytes(gzip.compress(bytes(50 * 10**6)))
    with pytest.raises(
        DataError, match=r"bomb\.tar\.gz: expected at most 200 times its size .*got more than 1"
    ):
        untar(bomb, tmp_path / "full")
    assert not (tmp_path / "full").exists()


@pytest.mark.parametrize("cut", [slice(0, -9), slice(0, 3), slice(0, 40)])
def test_a_damaged_compressed_tar_is_rejected_in_one_line(tmp_path: Path, cut: slice) -> None:
    tar = compressed(tar_of_tars(tmp_path / "a.tar.gz", tree(tmp_path / "t", {"n01": 3})))
    tar.write_bytes(tar.read_bytes()[cut])
    with pytest.raises(DataError, match=r"a\.tar\.gz: damaged or truncated gzip file") as caught:
        untar(tar, tmp_path / "full")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "full").exists()


def test_a_flipped_byte_is_found_by_the_checksum(tmp_path: Path) -> None:
    tar = compressed(tar_of_tars(tmp_path / "a.tar.gz", tree(tmp_path / "t", {"n01": 3})))
    data = bytearray(tar.read_bytes())
    data[-6] ^= 1
    tar.write_bytes(data)
    with pytest.raises(DataError, match="damaged or truncated gzip file"):
        untar(tar, tmp_path / "full")


def test_something_else_that_is_compressed_is_rejected_as_no_tar(tmp_path: Path) -> None:
    tar = tmp_path / "a.tar.gz"
    tar.write_bytes(gzip.compress(b"hello" * 1000))
    with pytest.raises(DataError, match=r"a\.tar\.gz: expected a complete, uncompressed tar"):
        untar(tar, tmp_path / "full")
