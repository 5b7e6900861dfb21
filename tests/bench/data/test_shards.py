"""Shards as a job reads them, and shards that it rejects."""

import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.data.partition import worker_partition
from bench.data.shards import count_images, places, shards
from bench.errors import SpecError
from bench.training.options import parse
from im2rec_tools.errors import DataError
from im2rec_tools.formats.recordio import read_record, unpack
from im2rec_tools.packing import manifest
from tests.support.data.shards import write
from tests.support.data.trees import made, tree
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make two shards of 4 images each, with lists and indexes beside them."""
    root = tree(tmp_path_factory.mktemp("shards") / "t", {"cat": 6, "dog": 6})
    made(root)
    train = root.with_name("t_rec") / "train"
    (train / "train_0.lst").write_text("0\t0\tcat/0.jpg\n")
    return train


def test_a_job_reads_the_rec_files_of_a_folder_and_no_others(folder: Path) -> None:
    assert [path.name for path in shards(str(folder))] == ["train_0.rec", "train_1.rec"]
    assert count_images(shards(str(folder))) == 8


def test_files_and_folders_may_be_joined_or_listed(tmp_path: Path, folder: Path) -> None:
    first, second = shards(str(folder))
    listed = tmp_path / "list.txt"
    listed.write_text(f"{second}\n\n{first}\n")
    assert shards(str(listed)) == (second, first)
    assert shards(f"{second};{first}") == (second, first)
    listed.write_text(f"{folder}\n")
    assert shards(str(listed)) == (first, second)


def test_each_image_lies_where_its_place_says_with_and_without_an_index(
    tmp_path: Path, folder: Path
) -> None:
    copy = tmp_path / "copy.rec"
    copy.write_bytes((folder / "train_1.rec").read_bytes())
    paths = (folder / "train_0.rec", copy)
    found = places(paths)
    assert found.shape == (8, 3)
    keys = [unpack(read_record(paths[n], at, size), "").index for n, at, size in found.tolist()]
    assert sorted(keys) == list(range(8))


def test_a_record_in_parts_is_put_together(tmp_path: Path) -> None:
    contents = [b"a" * 8 + bytes.fromhex("0a23d7ce") * 2 + b"b", b"", b"plain"]
    path = write(tmp_path / "x.rec", contents)
    places_of = places((path,)).tolist()
    assert [read_record(path, at, size) for _, at, size in places_of] == contents
    for _, at, size in places_of:
        with pytest.raises(DataError, match=rf"damaged at byte {at + 1}; expected a record"):
            read_record(path, at + 1, size)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("none.rec", "no such file"),
        ("empty", "got none"),
        ("none.txt", "expected a list of .rec files.*No such file"),
        ("blank.txt", "got none"),
        ("zero.rec", "the file is empty"),
        ("text.rec", "damaged at byte 0"),
    ],
)
def test_data_that_is_not_there_is_refused(tmp_path: Path, data: str, said: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "blank.txt").write_text("\n \n")
    (tmp_path / "zero.rec").touch()
    (tmp_path / "text.rec").write_text("no records here" * 9)
    with pytest.raises(SpecError, match=said) as caught:
        count_images(shards(str(tmp_path / data)))
    assert data in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_prepared_folder_is_refused_with_the_parts_to_give(folder: Path) -> None:
    data = re.escape(str(folder.parent))
    parts = rf"prepared folder \(train, val\)\. Give {data}/train or {data}/val$"
    with pytest.raises(SpecError, match=parts):
        shards(str(folder.parent))


def test_a_file_that_may_not_be_read_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(SpecError, match=r"train_0\.rec: cannot be read \(Permission denied\)"):
        shards(str(folder))


def test_a_file_named_twice_is_refused(folder: Path) -> None:
    with pytest.raises(SpecError, match=r"train_0\.rec more than once"):
        shards(f"{folder};{folder / 'train_0.rec'}")


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 8])
def test_the_workers_of_a_job_part_all_images_evenly(folder: Path, workers: int) -> None:
    parts = [worker_partition(str(folder), rank, workers) for rank in range(workers)]
    read = [n for part in parts for n in range(part.first, part.first + part.images)]
    assert read == list(range(8))
    assert min(part.images for part in parts) == parts[0].fewest
    assert max(part.images for part in parts) - parts[0].fewest <= 1


def test_a_manifest_that_is_none_is_refused(tmp_path: Path) -> None:
    rec = Path(tmp_path / "x.rec")
    rec.with_suffix(".json").write_text(json.dumps({"schema": 2, "images": 1}))
    with pytest.raises(DataError, match="expected the manifest of a shard"):
        manifest.read(rec)


READING, COLD = ("--test-io", "1"), ("--test-io", "1", "--cold", "1")
MISSING = ["none.rec", "none/", "*.rec", "none.rec;other.rec", "folder", "pipe.rec", "loop.rec"]


def unreadable(folder: Path, data: str) -> str:
    (folder / "folder" / "x.rec").mkdir(parents=True)
    os.mkfifo(folder / "pipe.rec")
    (folder / "loop.rec").symlink_to(folder / "loop.rec")
    (folder / "list.txt").write_text(f"{folder}/none.rec\n")
    return ";".join(f"{folder}/{part}" for part in data.split(";"))


@pytest.mark.parametrize("data", [*MISSING, "list.txt"])
def test_a_path_of_data_that_is_no_file_is_refused_in_one_line(tmp_path: Path, data: str) -> None:
    with pytest.raises(SpecError) as caught:
        shards(unreadable(tmp_path, data))
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


SMALL = ["--network", "tiny", "--batch-size", "2", "--windows", "1", "--image-shape", "3,32,32"]


@pytest.mark.mxnet
@pytest.mark.parametrize("mode", [(), READING, COLD])
@pytest.mark.parametrize("data", ["none.rec", "folder", "pipe.rec"])
def test_every_way_to_read_data_refuses_what_is_no_file(
    tmp_path: Path, data: str, mode: tuple[str, ...]
) -> None:
    from bench.training.input_rate import time_input  # noqa: PLC0415
    from bench.training.mxnet.backend import train  # noqa: PLC0415

    options = parse([*SMALL, "--data-train", unreadable(tmp_path, data), *mode])
    with pytest.raises(SpecError) as caught:
        (time_input if mode else train)(options)
    assert "\n" not in str(caught.value)


@pytest.mark.mxnet
def test_a_worker_refuses_data_that_is_no_file_with_2_and_one_line(tmp_path: Path) -> None:
    spec = unreadable(tmp_path, "folder")
    done = subprocess.run(
        [sys.executable, "-m", "bench.train_imagenet", *SMALL, "--data-train", spec, *READING],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
