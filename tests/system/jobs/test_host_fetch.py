"""Hosts fetch their shares themselves, with the label that training needs."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from google_crc32c import value as crc32c
from invoke.context import Context

from bench.data.partition import read
from im2rec_tools.transfer.urls import parse_urls
from launch.data_shares import described
from launch.host_fetch import fetch_on_hosts, host_shares
from launch.hosts import Host, HostOptions, this_machine
from launch.remote.errors import LaunchError
from launch.transport.line import Starter, start_local
from tasks.hosts import hosts_push_data
from tests.support.data.file_server import Site, served
from tests.support.data.trees import made, tree, wanted
from tests.support.paths import ROOT
from tests.support.programs.commands import refusal


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Serve two training shards and one for validation, with a list."""
    root = tmp_path_factory.mktemp("packed") / "t"
    made(tree(root, {"cat": 6, "dog": 6}), wanted(val=2, train_shards=2))
    folder = root.with_name("t_rec")
    files = {
        f"{part}/{path.name}": path.read_bytes()
        for part in ("train", "val")
        for path in (folder / part).iterdir()
    }
    listed = "".join(f"{name}\n" for name in files)
    with served(Site(files={**files, "names": listed.encode()})) as running:
        yield running


def hosts(folder: Path, count: int) -> list[Host]:
    """Return hosts, each with data of its own and links to this checkout's code."""
    found = []
    for number in range(count):
        checkout = folder / f"node{number}"
        checkout.mkdir()
        for name in ("bench", "im2rec_tools"):
            (checkout / name).symlink_to(ROOT / name)
        host = replace(this_machine(), name=checkout.name, tree=str(checkout))
        found.append(replace(host, python=sys.executable))
    return found


def fetched(site: Site, to: list[Host], scratch: Path) -> list[str]:
    parts = [f"{site.url}/train/train_{{0..1}}.rec", f"{site.url}/train/train_{{0..1}}.json"]
    scratch.mkdir(exist_ok=True)
    given = host_shares(parse_urls("SOURCE", " ".join(parts)), len(to), scratch)
    done: dict[str, str] = {}
    for _ in fetch_on_hosts(given, to, start_local, "data/t", done):
        pass
    return [done[host.name] for host in to]


@pytest.mark.program
def test_each_host_fetches_its_share_and_knows_those_of_the_others(
    site: Site, tmp_path: Path
) -> None:
    to = hosts(tmp_path, 2)
    lines = fetched(site, to, tmp_path / "scratch")
    assert [line.split(",")[0] for line in lines] == [
        f"node{n}: share {n + 1} of 2; 3 files" for n in (0, 1)
    ]
    for number, host in enumerate(to):
        folder = Path(host.tree, "data", "t")
        assert [one.name for one in folder.glob("*.rec")] == [f"train_{number}.rec"]
        label = read(folder)
        assert label is not None
        assert label.index == number
        assert [sorted(one) for one in label.images] == [["train_0.rec"], ["train_1.rec"]]
    found = described("data/t", to, start_local)
    assert [line.split(",")[0] for line in found] == [
        f"node{n}: data/t: share {n + 1} of 2" for n in (0, 1)
    ]


@pytest.mark.program
def test_with_more_hosts_a_host_gives_up_the_shards_of_others(site: Site, tmp_path: Path) -> None:
    to = hosts(tmp_path, 2)
    fetched(site, to[:1], tmp_path / "scratch")
    folder = Path(to[0].tree, "data", "t")
    assert {one.name for one in folder.glob("*.rec")} == {"train_0.rec", "train_1.rec"}
    fetched(site, to, tmp_path / "scratch")
    assert {one.name for one in folder.glob("train_*")} == {
        "train_0.rec",
        "train_0.json",
        "train_0.idx",
    }
    other = folder / "train_1.rec"
    other.write_bytes(b"mine")
    with pytest.raises(LaunchError, match=r"^node0: .*train_1.rec: is not of this share.*Move it"):
        fetched(site, to, tmp_path / "scratch")
    assert other.read_bytes() == b"mine"


@pytest.mark.program
def test_the_task_prints_the_result_and_the_share_of_each_host(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def ready(_: HostOptions) -> Iterator[tuple[list[Host], Starter]]:
        yield hosts(tmp_path, 1), start_local

    monkeypatch.setattr("launch.setup.ready_hosts", ready)
    url = f"{site.url}/train/train_0.rec"
    hosts_push_data.body(Context(), url, into="data/t")
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("node0: share 1 of 1; 3 files, ")
    assert printed[1].startswith("node0: data/t: 1 shards, manifest ")
    assert refusal(hosts_push_data, url)[1].startswith("error: SOURCE: a URL needs --into DIR")


@pytest.mark.program
def test_a_host_that_cannot_fetch_is_named_and_ends_no_other(site: Site, tmp_path: Path) -> None:
    to = hosts(tmp_path, 2)
    (Path(to[0].tree) / "data").write_text("a file in place of the folder")
    with pytest.raises(LaunchError, match=r"^node0: .*data/t: cannot be written"):
        fetched(site, to, tmp_path / "scratch")
    assert Path(to[1].tree, "data", "t", "train_1.rec").exists()


@pytest.mark.program
def test_hosts_check_the_checksums_of_the_list_and_report_progress(tmp_path: Path) -> None:
    data = bytes(100_000)
    crc = f"{crc32c(data):08x}"
    listed = f"a.tar\t100000\t{crc}\nb.tar\t100000\t{crc}\n"
    files = {"p/a.tar": data, "p/b.tar": data, "p/files.tsv": listed.encode()}
    to = hosts(tmp_path, 1)
    done: dict[str, str] = {}
    with served(Site(files=files)) as store:
        urls = parse_urls("SOURCE", f"{store.url}/p/")
        given = host_shares(urls, 1, tmp_path)
        seen = list(fetch_on_hosts(given, to, start_local, "data/p", done))
        assert done["node0"].endswith("2 fetched, 2 with checksums")
        assert {one.host for one in seen} == {"node0"}
        assert {one.step for one in seen} <= {"checking", "fetching"}
        store.files["p/b.tar"] = data[1:] + b"1"
        given = host_shares(urls, 1, tmp_path)
        with pytest.raises(LaunchError, match=rf"^node0: .*b.tar: expected crc32c {crc}"):
            list(fetch_on_hosts(given, to, start_local, "data/q", done))
    assert [one.name for one in Path(to[0].tree, "data/q").glob("*.tar")] == ["a.tar"]


def test_shares_are_of_train_and_all_hosts_get_the_rest(site: Site, tmp_path: Path) -> None:
    names = [name for name in site.files if "/" in name]
    for name in names:
        (tmp_path / "store" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "store" / name).write_bytes(site.files[name])
    (url,) = parse_urls("SOURCE", f"file://{tmp_path}/store/")
    given = host_shares([url], 2, tmp_path / "scratch")
    for number, one in enumerate(given):
        found = {file.name for file in one.files}
        assert found == {name for name in names if name.startswith("val/") or f"_{number}." in name}
    with pytest.raises(LaunchError, match=r"^SOURCE: expected .* each of 3 hosts.*fewer hosts"):
        host_shares([url], 3, tmp_path / "scratch")


def test_credentials_of_a_url_do_not_go_to_hosts(tmp_path: Path) -> None:
    for text in ("http://user:w0rd@h/a/", "https://h/a.rec?sig=w0rd"):
        with pytest.raises(LaunchError, match="does not go to hosts") as caught:
            host_shares(parse_urls("SOURCE", text), 1, tmp_path)
        assert "w0rd" not in str(caught.value)
