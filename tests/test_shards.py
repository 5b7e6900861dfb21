"""Shards as a job reads them, and what is refused."""

import json
from pathlib import Path

import pytest

from bench.errors import SpecError
from bench.shards import count_images, merged_index, shards
from im2rec_tools import manifest
from im2rec_tools.errors import DataError
from tests.trees import made, tree


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
    rec.with_suffix(".json").write_text(json.dumps({"schema": 2, "images": 1}))
    with pytest.raises(DataError, match="not a manifest"):
        manifest.read(rec)
