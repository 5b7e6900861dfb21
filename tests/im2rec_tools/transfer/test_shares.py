"""Shards come with index and manifest, which checks them; hosts fetch shares."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from google_crc32c import value

from im2rec_tools.errors import DataError
from im2rec_tools.transfer.fetch_job import FetchJob, fetch
from im2rec_tools.transfer.file_list import ListedFile, WantedFile, share
from im2rec_tools.transfer.urls import parse_urls
from tests.support.data.datasets import entries_of, listed, pack
from tests.support.data.file_server import Site, served
from tests.support.data.trees import tree


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return two packed shards with index and manifest, by name."""
    folder = tmp_path_factory.mktemp("shards")
    root = tree(folder / "root", {"a": 3})
    for name in ("train_0", "train_1"):
        pack(listed(folder, entries_of(root), name), root, folder)
    return {path.name: path.read_bytes() for path in folder.glob("train_*.[!l]*")}


@pytest.fixture
def site(shards: dict[str, bytes]) -> Iterator[Site]:
    with served(Site(files=dict(shards))) as running:
        yield running


def run(text: str, folder: Path, part: tuple[int, int] = (1, 1)) -> list[str]:
    list(fetch(FetchJob(urls=parse_urls("URL", text), folder=folder, part=part)))
    return sorted(path.name for path in folder.glob("[!.]*"))


def test_a_shard_comes_with_its_index_and_its_manifest(site: Site, tmp_path: Path) -> None:
    found = run(f"{site.url}/train_{{0..1}}.rec", tmp_path)
    assert found == [f"train_{n}.{end}" for n in (0, 1) for end in ("idx", "json", "rec")]
    del site.files["train_0.idx"]
    assert run(f"{site.url}/train_0.rec", tmp_path / "x") == ["train_0.json", "train_0.rec"]


def test_the_manifest_checks_its_shard(site: Site, tmp_path: Path) -> None:
    made = json.loads(site.files["train_0.json"])
    site.files["train_0.rec"] = site.files["train_0.rec"][:-1] + b"\xff"
    with pytest.raises(DataError, match=f"rec: expected crc32c {made['crc32c']}, got"):
        run(f"{site.url}/train_0.rec", tmp_path)
    assert not (tmp_path / "train_0.rec").exists()


def test_hosts_fetch_their_shares_of_a_list(site: Site, tmp_path: Path) -> None:
    rows = [f"{name}\t{len(data)}\t{value(data):08x}" for name, data in site.files.items()]
    site.files["files.tsv"] = "\n".join(rows).encode()
    for host in (1, 2):
        found = run(f"{site.url}/", tmp_path / str(host), (host, 2))
        assert found == sorted(name for name in site.files if f"_{host - 1}." in name)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10])
def test_every_file_is_in_one_share_and_shares_differ_by_one(count: int) -> None:
    names = [f"n{number}.tar" for number in range(10)]
    (url,) = parse_urls("URL", "http://h/x/")
    files = [WantedFile(url=url.sibling(name), listed=ListedFile(name=name)) for name in names]
    shares = [share(files, index, count) for index in range(1, count + 1)]
    assert [one.name for each in shares for one in each] == names
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    with pytest.raises(DataError, match=re.escape("--part: expected at least 11 files")):
        share(files, 1, 11)
