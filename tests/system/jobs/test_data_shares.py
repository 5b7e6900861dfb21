"""Each host gets its share of a data set's shards, and a job reads only this one."""

import os
import re
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.data.partition import HostPartition, damage, read, text, whole_data, worker_partition
from bench.data.shards import count_images, places
from bench.data.transforms import read_image
from bench.errors import SpecError
from bench.notes import NoteKind
from bench.training.options import parse
from launch.data_shares import described, everything, hand_out, not_seen, parcels, target
from launch.hosts import ROOT, Host, this_machine
from launch.job.monitor import Deadlines
from launch.remote.errors import LaunchError, PreflightError
from launch.transport.line import start_local
from tasks.hosts import show_progress
from tests.support.data.trees import made, tree, wanted
from tests.support.programs.jobs import left_over, measured, tiny

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make five training shards of four images each, and one for validation."""
    root = tmp_path_factory.mktemp("packed") / "t"
    made(tree(root, {"cat": 12, "dog": 12}), wanted(val=2, train_shards=5))
    return root.with_name("t_rec")


def hosts(folder: Path, count: int) -> list[Host]:
    names = [f"node{number:02}" for number in range(count)]
    return [replace(this_machine(), name=name, tree=str(folder / name)) for name in names]


def handed_out(source: Path, to: list[Host], labels: Path) -> dict[str, Any]:
    """Push shares into data/t on the hosts; return each host's last message."""
    labels.mkdir(exist_ok=True)
    return show_progress(hand_out(parcels(source, len(to), labels), to, start_local, "data/t"))


def recs(host: Host, folder: str = "train") -> list[str]:
    return sorted(p.name for p in Path(host.tree, "data", "t", folder).glob("*.rec"))


@given(st.lists(st.dictionaries(NAMES, st.integers(1)), min_size=2, max_size=5), st.data())
def test_a_label_reads_back(images: list[dict[str, int]], data: st.DataObject) -> None:
    share = HostPartition(index=data.draw(st.integers(0, len(images) - 1)), images=tuple(images))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "share.json").write_text(text(share), encoding="utf-8")
        assert read(Path(folder)) == share


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_shard_goes_to_one_host_with_what_lies_beside_it(
    tmp_path: Path, packed: Path, count: int
) -> None:
    to = hosts(tmp_path, count)
    handed_out(packed, to, tmp_path / "labels")
    assert sorted(name for host in to for name in recs(host)) == [
        f"train_{n}.rec" for n in range(5)
    ]
    for host in to:
        assert recs(host, "val") == ["val.rec"]
        for path in Path(host.tree, "data", "t").rglob("*.*"):
            if path.suffix in {".rec", ".idx"} or path.stem == "train":
                original = packed / path.relative_to(Path(host.tree, "data", "t"))
                assert path.read_bytes() == original.read_bytes()
                assert path.with_suffix(".json").is_file()
    read_by_all = [worker_partition(f"{host.tree}/data/t/train", 0, count).paths for host in to]
    assert count_images(tuple(path for paths in read_by_all for path in paths)) == 20


def test_a_second_push_copies_nothing_and_another_cut_replaces_the_first(
    tmp_path: Path, packed: Path
) -> None:
    to = hosts(tmp_path, 3)
    handed_out(packed, to, tmp_path / "labels")
    again = handed_out(packed, to, tmp_path / "labels")
    assert {moved.files for moved in again.values()} == {0}
    handed_out(packed, to[:2], tmp_path / "labels")
    assert [recs(host) for host in to[:2]] == [
        ["train_0.rec", "train_1.rec"],
        ["train_2.rec", "train_3.rec", "train_4.rec"],
    ]


def test_fewer_shards_than_hosts_are_refused(tmp_path: Path, packed: Path) -> None:
    with pytest.raises(
        LaunchError, match=r"expected at least one shard per host \(6\), got 5\. Pack with --train-"
    ):
        handed_out(packed, hosts(tmp_path, 6), tmp_path / "labels")


def test_a_shard_that_somebody_else_put_beside_a_share_is_said_first(
    tmp_path: Path, packed: Path
) -> None:
    to = hosts(tmp_path, 2)
    shutil.copytree(packed, Path(to[1].tree, "data", "t"))  # such as the source itself
    with pytest.raises(LaunchError) as caught:
        handed_out(packed, to, tmp_path / "labels")
    assert str(caught.value) == (
        "node01: data/t/train/train_0.rec (and 1 more) is not of its share, and no push wrote it. "
        "If the host shares this machine's file system, use --shared; else choose another folder "
        "with --into DIR"
    )
    assert not list(tmp_path.glob("*/data/t/train/share.json"))


def test_hosts_that_see_one_file_system_are_found_out(tmp_path: Path, packed: Path) -> None:
    to = [replace(host, tree=str(tmp_path / "nfs")) for host in hosts(tmp_path, 2)]
    with pytest.raises(LaunchError, match="share a file"):
        handed_out(packed, to, tmp_path / "labels")


def test_shared_folders_are_compared_and_not_changed(tmp_path: Path, packed: Path) -> None:
    to = hosts(tmp_path, 3)
    for host in to:
        shutil.copytree(packed, Path(host.tree, "data", "t"))
    assert not_seen(everything(packed), to, start_local, "data/t") == []
    made_otherwise = Path(to[1].tree, "data", "t", "train", "train_0.json")
    made_otherwise.write_text(made_otherwise.read_text().replace('"images": 4', '"images": 5'))
    Path(to[2].tree, "data", "t", "val", "val.rec").unlink()
    Path(to[2].tree, "data", "t", "val", "val.idx").write_text("cut")
    assert not_seen(everything(packed), to, start_local, "data/t") == [
        "node01: data/t/train/train_0.json has different contents",
        "node02: data/t/val/val.rec is missing (and 1 more)",
    ]


def test_the_folder_there_is_where_it_is_in_the_checkout_here(tmp_path: Path) -> None:
    assert target(ROOT / "data" / "x_rec", "") == "data/x_rec"
    assert target(tmp_path, "data/other") == "data/other"
    with pytest.raises(LaunchError, match=r"expected a folder in the checkout\. .* --into DIR"):
        target(tmp_path, "")


@pytest.fixture
def held(tmp_path: Path, packed: Path) -> list[Host]:
    to = hosts(tmp_path, 2)
    handed_out(packed, to, tmp_path / "labels")
    return to


def test_a_worker_reads_all_of_its_hosts_share_whatever_its_rank(held: list[Host]) -> None:
    first, second = (worker_partition(f"{host.tree}/data/t/train", 1, 2) for host in held)
    assert (first.index, first.count) == (second.index, second.count) == (0, 1)
    assert [path.name for path in first.paths] == ["train_0.rec", "train_1.rec"]
    assert (first.fewest, first.epoch) == (second.fewest, second.epoch) == (8, 16)
    val = worker_partition(f"{held[0].tree}/data/t/val", 1, 2)
    assert (val.index, val.count, val.epoch) == (1, 2, 4)
    alone = whole_data(f"{held[0].tree}/data/t/train")
    assert (alone.paths, alone.index, alone.count, alone.epoch) == (first.paths, 0, 1, 8)


def refused(data: Path, workers: int = 2) -> str:
    with pytest.raises(SpecError) as caught:
        worker_partition(str(data), 0, workers)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_share_that_does_not_fit_is_refused(held: list[Host], packed: Path) -> None:
    data = Path(held[0].tree, "data", "t", "train")
    assert (
        "expected shares for 4 workers (1 per host), got share 1 of 2. Push the data for"
        in refused(data, 4)
    )
    both = f"{data};{packed / 'train'}"
    assert "one folder holds share 1 of 2. Give that folder alone" in refused(Path(both))
    shutil.copy(packed / "train" / "train_4.rec", data)
    assert "share 1 of 2 also holds train_4.rec. Push" in refused(data)
    (data / "train_4.rec").unlink()
    (data / "train_1.rec").unlink()
    assert "share 1 of 2 lacks train_1.rec. Push the data again" in refused(data)
    for wrong in ("[]", "{", '{"schema": 1, "index": 2, "of": 2, "images": [{}, {}]}'):
        (data / "share.json").write_text(wrong)
        assert "share.json: " in refused(data)
        assert "Push the data again" in refused(data)


def test_the_workers_of_a_host_part_its_share(
    held: list[Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = f"{held[1].tree}/data/t/train"  # 8 images; the other share has 12
    monkeypatch.setenv("MXSCALE_LOCAL", "1/2")
    mine = worker_partition(data, 3, 4)
    assert (mine.index, mine.count, mine.fewest, mine.epoch) == (1, 2, 4, 16)


@pytest.mark.mxnet
def test_a_job_on_two_hosts_trains_on_the_shares_they_hold(
    tmp_path: Path, held: list[Host], packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for host in held:
        for name in ("bench", "im2rec_tools"):
            Path(host.tree, name).symlink_to(ROOT / name)
    to = tuple(replace(host, python=sys.executable, cpus=1, cores=()) for host in held)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "t").symlink_to(packed)
    monkeypatch.chdir(tmp_path)  # the master has all of it, where the hosts have their shares
    fields = {"mode": "real", "data_train": "data/t/train", "data_val": "data/t/val", "windows": 2}
    fields |= {"warmup_windows": 1, "num_epochs": 2, "steps_per_window": 1}
    both = tiny(kvstore="dist_sync", devices=2, devices_per_host=1, **fields)
    (record,) = measured(tmp_path / "run", both, hosts=to, deadlines=Deadlines())
    (cached,) = (note for note in record.notes if note.kind is NoteKind.PAGE_CACHE)
    assert record.status == "ok"
    assert cached.figures["state"] in {"warm", "partly warm"}
    assert [rank.images for rank in record.ranks] == [(4, 4, 4), (4, 4, 4)]
    assert left_over() == []


def rotted(path: Path) -> bytes:
    """Change a byte in the middle of a file, but not its size and time."""
    whole, status = path.read_bytes(), path.stat()
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return whole


def test_a_shard_that_rots_after_a_push_is_found_and_copied_again(
    tmp_path: Path, packed: Path
) -> None:
    to = hosts(tmp_path, 2)
    handed_out(packed, to, tmp_path / "labels")
    bad = Path(to[1].tree, "data", "t", "train", "train_3.rec")
    whole = rotted(bad)
    assert {moved.files for moved in handed_out(packed, to, tmp_path / "labels").values()} == {0}
    given = parcels(packed, 2, tmp_path / "labels")
    last = show_progress(hand_out(given, to, start_local, "data/t", verify=True))
    assert [last[host.name].other for host in to] == [(), ("train/train_3.rec",)]
    assert bad.read_bytes() == whole
    last = show_progress(hand_out(given, to, start_local, "data/t", verify=True))
    assert {(moved.files, moved.other) for moved in last.values()} == {(0, ())}


def test_shared_files_are_compared_byte_by_byte_if_asked(tmp_path: Path, packed: Path) -> None:
    to = hosts(tmp_path, 2)
    for host in to:
        shutil.copytree(packed, Path(host.tree, "data", "t"))
    rotted(Path(to[1].tree, "data", "t", "val", "val.rec"))
    pieces = everything(packed)
    assert not_seen(pieces, to, start_local, "data/t") == []
    assert not_seen(pieces, to, start_local, "data/t", verify=True) == [
        "node01: data/t/val/val.rec has different contents"
    ]


def test_hosts_read_their_shards_whole_and_name_the_damaged_record(
    tmp_path: Path, packed: Path
) -> None:
    to = [replace(host, tree=str(ROOT), python=sys.executable) for host in hosts(tmp_path, 1)]
    shutil.copytree(packed, tmp_path / "t")
    data = str(tmp_path / "t" / "train")
    assert described(data, to, start_local, verify=True)[0].endswith("every record verified")
    for number in (1, 4):
        rotted(tmp_path / "t" / "train" / f"train_{number}.rec")
    assert (
        "5 shards" in described(data, to, start_local)[0]
    )  # names, sizes and manifests are as they were
    with pytest.raises(PreflightError) as caught:
        described(data, to, start_local, verify=True)
    said = str(caught.value)
    assert re.search(r"node00: \S+train_1.rec: record \d at byte \d+: modified after", said)
    assert re.search(r"train_4.rec: record \d at byte \d+: modified after packing", said)
    assert said.endswith("Copy damaged shards again with 'fab hosts.push-data --verify'")


@pytest.mark.parametrize("change", ["index", "cut", "no manifest"])
def test_reading_shards_whole_compares_index_and_count(
    tmp_path: Path, packed: Path, change: str
) -> None:
    shutil.copytree(packed, tmp_path / "t")
    rec = tmp_path / "t" / "train" / "train_0.rec"
    index = rec.with_suffix(".idx")
    if change == "index":
        lines = index.read_text().splitlines()
        lines[1], lines[2] = lines[2], lines[1]
        index.write_text("\n".join(lines) + "\n")
    elif change == "cut":
        rec.write_bytes(rec.read_bytes()[: int(index.read_text().split()[-1])])
    else:
        rec.with_suffix(".json").unlink()
        index.unlink()
    found = damage(str(tmp_path / "t" / "train"))
    said = {"index": "the index train_0.idx lists a different position", "cut": "expected 4"}
    assert [said[change] in line for line in found] == ([True] if change in said else [])


def test_the_message_of_a_damaged_record_names_the_command_that_finds_it(
    tmp_path: Path, packed: Path
) -> None:
    shutil.copytree(packed, tmp_path / "t")
    rec = tmp_path / "t" / "train" / "train_0.rec"
    place = places((rec,))[1]
    options = parse(["--network", "tiny", "--data-train", str(rec), "--batch-size", "2"])
    rec.write_bytes(rec.read_bytes()[: place[1]] + bytes(8) + rec.read_bytes()[place[1] + 8 :])
    where = rec, int(place[1]), int(place[2]), None
    with pytest.raises(SpecError) as caught:
        read_image(where, options, np.zeros((3, 32, 32), np.float32))
    assert "'fab hosts.check --data DIR --verify'" in str(caught.value)
    assert "'fab hosts.push-data DIR --verify'" in str(caught.value)
