"""The drop-in replacement for upstream's im2rec.py, compared with the original."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from im2rec_tools import im2rec
from im2rec_tools.formats.images import check
from im2rec_tools.formats.recordio import ImageRecord, read_index, records, unpack
from tests.support.data.trees import encoded, jpeg, pixels, tree
from tests.support.paths import ROOT

ENVIRONMENT = {**os.environ, "PYTHONWARNINGS": "ignore"}


ALL = """
import json, runpy, sys
for words in json.loads(sys.stdin.read()):
    sys.argv = ["im2rec.py", *words]
    runpy.run_module("benchmarks.upstream", run_name="__main__")
"""


def upstream(commands: list[list[str]]) -> None:
    """Run upstream's program for each command, in one process with MXNet imported."""
    subprocess.run(
        [sys.executable, "-c", ALL],
        input=json.dumps(commands),
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
    )


def read(rec: Path) -> list[ImageRecord]:
    offsets = [offset for _, offset in read_index(rec.with_suffix(".idx"))]
    found = [(offset, unpack(payload, str(rec))) for offset, payload in records(rec)]
    assert [offset for offset, _ in found] == offsets
    return [record for _, record in found]


def mixed(root: Path) -> Path:
    """Make classes at two depths, with images of many kinds and sizes."""
    tree(root, {"cat": 9, "dog": 7, "dog/poodle": 3, "b c": 2})
    picture = pixels(jpeg(90, 60))
    (root / "cat" / "a.png").write_bytes(encoded(".png", picture))
    alpha = cv2.cvtColor(picture, cv2.COLOR_BGR2BGRA)
    (root / "cat" / "alpha.png").write_bytes(encoded(".png", alpha))
    grey = cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY)
    (root / "dog" / "grey.JPEG").write_bytes(encoded(".jpg", grey))
    (root / "dog" / "large.jpg").write_bytes(jpeg(700, 901))
    (root / "dog" / "notes.txt").write_text("no image")
    (root / "at the root.jpg").write_bytes(jpeg(101, 77))
    return root


LISTS = [
    ["--recursive"],
    ["--recursive", "--chunks", "8"],
    ["--recursive", "--chunks", "3", "--train-ratio", "0.6", "--test-ratio", "0.2"],
    ["--recursive", "--train-ratio", "0.75"],
    ["--recursive", "--train-ratio", "0.5", "--test-ratio", "0.5"],
    ["--exts", ".jpg", "--no-shuffle", "--recursive"],
    [],
]


@pytest.mark.mxnet
def test_lists_are_upstreams_to_the_byte(tmp_path: Path) -> None:
    root = mixed(tmp_path / "t")
    folders = [tmp_path / f"theirs{number}" for number in range(len(LISTS))]
    for folder in folders:
        folder.mkdir()
    upstream(
        [
            ["--list", *options, str(folder / "x"), str(root)]
            for options, folder in zip(LISTS, folders, strict=True)
        ]
    )
    for number, (options, theirs) in enumerate(zip(LISTS, folders, strict=True)):
        ours = tmp_path / f"ours{number}"
        ours.mkdir()
        assert im2rec.main(["--list", *options, str(ours / "x"), str(root)]) == 0
        names = sorted(path.name for path in theirs.iterdir())
        assert sorted(path.name for path in ours.iterdir()) == names, options
        for name in names:
            assert (ours / name).read_bytes() == (theirs / name).read_bytes(), (options, name)


SHARDS = [
    ["--resize", "64", "--quality", "90"],
    ["--resize", "150"],
    ["--center-crop"],
    ["--center-crop", "--resize", "50", "--color", "0"],
    ["--color", "-1", "--encoding", ".png", "--quality", "3"],
    ["--color", "0"],
    ["--pass-through"],
    ["--pack-label", "--resize", "64"],
]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a tree and upstream's shards of it; those of SHARDS[n] in folder n."""
    place = tmp_path_factory.mktemp("packed")
    root, commands = mixed(place / "t"), []
    for number, options in enumerate(SHARDS):
        prefix = place / str(number) / "x"
        prefix.parent.mkdir()
        assert im2rec.main(["--list", "--recursive", str(prefix), str(root)]) == 0
        if "--pack-label" in options:
            lines = prefix.with_suffix(".lst").read_text().splitlines()
            rows = [line.split("\t") for line in lines]
            text = "".join(f"{a}\t{b}\t0.500000\t{b}\t{c}\n" for a, b, c in rows)
            prefix.with_suffix(".lst").write_text(text)
        commands.append([*options, "--num-thread", "2", str(prefix), str(root)])
    upstream(commands)
    return place


@pytest.mark.mxnet
@pytest.mark.parametrize("number", range(len(SHARDS)), ids=[" ".join(one) for one in SHARDS])
def test_records_have_upstreams_labels_and_sizes(tmp_path: Path, packed: Path, number: int) -> None:
    options, theirs, ours = SHARDS[number], packed / str(number), tmp_path
    shutil.copy(theirs / "x.lst", ours)
    root = str(packed / "t")
    assert im2rec.main([*options, "--num-thread", "2", str(ours / "x"), root]) == 0
    first, second = read(ours / "x.rec"), read(theirs / "x.rec")
    assert len(first) == len(second) > 20
    flag = cv2.IMREAD_UNCHANGED
    for one, other in zip(first, second, strict=True):
        assert (one.index, one.labels) == (other.index, other.labels)
        pictures = [pixels(record.image, flag) for record in (one, other)]
        assert pictures[0].shape == pictures[1].shape
        if "--pass-through" in options:
            assert one.image == other.image
        assert np.abs(pictures[0].astype(float) - pictures[1]).mean() < 8


def test_the_tutorials_spelling_is_taken(tmp_path: Path) -> None:
    root = tree(tmp_path / "full", {"cat": 9, "dog": 7})
    prefix = str(tmp_path / "x")
    listing = ["--list", "True", "--chunks", "8", "--recursive", "True", prefix, str(root)]
    assert im2rec.main(listing) == 0
    assert len(list(tmp_path.glob("x_*.lst"))) == 8
    packing = ["--resize", "480", "--quality", "90", "--num-thread", "16", prefix, str(root)]
    assert im2rec.main(packing) == 0
    found = [record for rec in sorted(tmp_path.glob("x_*.rec")) for record in read(rec)]
    assert len(found) == 16
    assert {min(check(record.image)) for record in found} == {480}


def test_other_lists_that_begin_alike_are_left_alone(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 3})
    for name in ("train", "train_val", "trainer", "train_b"):
        assert im2rec.main(["--list", "--recursive", str(tmp_path / name), str(root)]) == 0
    assert im2rec.main([str(tmp_path / "train"), str(root)]) == 0
    names = sorted(path.name for path in tmp_path.glob("*.rec"))
    assert names == ["train.rec", "train_val.rec"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--chunks", "0"], "--chunks: expected 1 to 1000000, got 0"),
        (["--quality", "101"], "--quality: expected 0 to 100, got 101"),
        (["--train-ratio", "0.9", "--test-ratio", "0.2"], "expected a sum of at most 1, got 1.1"),
        (["--max-bad", "many"], "--max-bad: expected a percentage from 0 to 100, got 'many'"),
        ([], "expected lists with this prefix, got none. Make them with --list"),
    ],
)
def test_what_cannot_be_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    root = tree(tmp_path / "t", {"cat": 3})
    if "--max-bad" in options:
        assert im2rec.main(["--list", str(tmp_path / "x"), str(root / "cat")]) == 0
    assert im2rec.main([*options, str(tmp_path / "x"), str(root)]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_bad_images_are_counted_and_listed_not_lost(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 9})
    (root / "cat" / "cut.jpg").write_bytes(jpeg(90, 90)[:-200])
    prefix = str(tmp_path / "x")
    assert im2rec.main(["--list", "--recursive", prefix, str(root)]) == 0
    assert im2rec.main(["--max-bad", "0", prefix, str(root)]) == 2
    assert (tmp_path / "x.bad.tsv").read_text().split("\t")[1] == "cat/cut.jpg"
    assert im2rec.main([prefix, str(root)]) == 0
    assert len(read(tmp_path / "x.rec")) == 9


def test_a_dry_run_of_packing_notes_ids_that_occur_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tree(tmp_path / "t", {"n01": 2})
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*.jpg"))
    (tmp_path / "a.lst").write_text("".join(f"7\t0\t{name}\n" for name in names))
    assert im2rec.main([str(tmp_path / "a"), str(root), "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert f"note: {tmp_path / 'a.lst'}: 1 duplicate ids, the first is 7" in said
    assert "would pack 2 images of " in said
