"""Verification of shards: every damaged one is named, whatever its damage."""

from dataclasses import replace
from pathlib import Path

import pytest

from im2rec_tools.declarations import INFO, PACK, SPLIT, VERIFY
from im2rec_tools.declarations import JOIN_INDEX as JOIN
from im2rec_tools.errors import DataError
from tests.support.data.trees import lines, made, snapshot, tree, wanted


def test_every_bad_shard_is_reported_not_only_the_first(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 20})
    lines(PACK.planned({"prefix": str(tmp_path / "s" / "x"), "root": str(root), "chunks": "5"}))
    shards = [tmp_path / "s" / f"x_{n}.rec" for n in range(5)]
    flipped = bytearray(shards[0].read_bytes())
    flipped[len(flipped) // 2] ^= 0xFF
    shards[0].write_bytes(flipped)
    shards[2].write_bytes(shards[2].read_bytes()[:-8])  # fails before a record is read
    shards[4].write_bytes(b"")
    with pytest.raises(DataError) as caught:
        lines(VERIFY.planned({"path": str(tmp_path / "s")}))
    first, *wrong = str(caught.value).splitlines()
    assert first == "3 of 5 shards failed verification:"
    assert [line.split(":")[0].strip() for line in wrong] == [
        str(shard) for shard in (shards[0], shards[2], shards[4])
    ]


def test_a_single_bad_shard_is_one_line(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 4})
    lines(PACK.planned({"prefix": str(tmp_path / "x"), "root": str(root)}))
    rec = tmp_path / "x.rec"
    whole = rec.stat().st_size
    rec.write_bytes(rec.read_bytes()[:-8])
    with pytest.raises(DataError) as caught:
        lines(VERIFY.planned({"path": str(rec)}))
    assert "\n" not in str(caught.value)
    sizes = f"expected {whole} bytes, as in the manifest, got {whole - 8}; truncated"
    assert str(caught.value).startswith(f"{rec}: {sizes}. Copy it again")


def test_the_prepared_folder_stands_for_both_its_parts(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 5, "dog": 4})
    made(root)
    folder = tmp_path / "t_rec"
    before = snapshot(tmp_path)
    verified = lines(VERIFY.planned({"path": str(folder)}))
    starts = ["train: 5 images of 2 labels in 2 shards", "val: 4 images of 2 labels in 1 shards"]
    found = [line for line in verified if line.startswith(tuple(starts))]
    assert [line.split(", ")[0] for line in found] == starts
    assert verified[-1].startswith("9 images of 2 labels in 3 shards")
    shown = lines(INFO.planned({"path": str(folder)}))
    assert "train: images per label: 2 (label 1, dog) to 3 (label 0, cat)" in shown
    assert "2 classes: cat, dog" in shown
    assert lines(SPLIT.planned({"root": str(folder)}))[:2] == [
        "train: 5 images of 2 classes",
        "val: 4 images of 2 classes",
    ]
    (line,) = lines(SPLIT.planned({"root": str(folder), "undo": True}))
    assert line.startswith("no images to move back")
    assert snapshot(tmp_path) == before
    (folder / "labels.txt").write_text("0\tcat\n")
    for command in (VERIFY, INFO):
        with pytest.raises(DataError, match=r"labels\.txt: expected a class for label 1"):
            lines(command.planned({"path": str(folder)}))
    with pytest.raises(
        DataError, match=r"a prepared folder \(train, val\)\. Give .*train or .*val$"
    ):
        JOIN.planned({"path": str(folder), "index": str(tmp_path / "all.idx")})


def test_undo_of_a_prepared_folder_moves_back_what_prepare_moved(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 5})
    before = snapshot(root)
    made(root, replace(wanted(), move=True))
    lines(SPLIT.planned({"root": str(tmp_path / "t_rec"), "undo": True}))
    assert snapshot(root) == before
    made(root)  # the same lists, so the shards stay valid
    with pytest.raises(DataError, match="a prepared folder; its images are elsewhere"):
        SPLIT.planned({"root": str((tmp_path / "t_rec").rename(tmp_path / "x")), "undo": True})


def test_a_joined_index_replaces_no_file(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 4})
    lines(PACK.planned({"prefix": str(tmp_path / "s" / "x"), "root": str(root), "chunks": "2"}))
    names = ("x_0.rec", "x_0.json", "x_0.idx", "x_0.lst")
    before = {name: (tmp_path / "s" / name).read_bytes() for name in names}
    for name in names:
        given = {"path": str(tmp_path / "s"), "index": str(tmp_path / "s" / name)}
        with pytest.raises(DataError, match=r"ends in \.idx|already exists"):
            lines(JOIN.planned(given))
    assert {name: (tmp_path / "s" / name).read_bytes() for name in names} == before


def test_a_dry_run_refuses_an_empty_list_and_notes_ids_that_occur_again(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 3})
    given = {"prefix": str(tmp_path / "x"), "root": str(root)}
    (tmp_path / "x.lst").write_text("0\t0\tcat/0.jpg\n0\t0\tcat/1.jpg\n")
    assert any("1 duplicate ids" in line for line in PACK.planned(given).says)
    for text in ("", "0\t0\t\n"):
        (tmp_path / "x.lst").write_text(text)
        with pytest.raises(DataError, match=r"x\.lst"):
            list(PACK.planned(given).says)
