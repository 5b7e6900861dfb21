"""Class tars: written, uploaded, fetched in shares and unpacked to the same tree."""

import os
import shutil
import tarfile
from pathlib import Path

import pytest

from im2rec_tools.declarations import FETCH, PARTITION, UNTAR, UPLOAD
from im2rec_tools.errors import DataError
from tests.support.data.file_server import Site, served
from tests.support.data.trees import lines, tree


def contents(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("[!.]*.*") if p.is_file()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tree(tmp_path / "photos", dict.fromkeys(("n1", "n2", "n3", "with blank"), 2))
    (made / "n1" / f"{'long' * 50}.jpg").write_bytes(b"x" * 1000)
    return made


def partition(root: Path, out: Path, part: str = "1/1") -> list[str]:
    return lines(PARTITION.planned({"root": str(root), "out": str(out), "part": part}))


@pytest.mark.parametrize("hosts", [1, 2, 4])
def test_hosts_write_and_fetch_class_tars_side_by_side(
    root: Path, tmp_path: Path, hosts: int
) -> None:
    out, wanted = tmp_path / "out", contents(root)
    for host in range(1, hosts + 1):
        partition(root, out, f"{host}/{hosts}")
    site = Site(files={f"p/{name}": data for name, data in contents(out).items()})
    folders = "p/" if hosts == 1 else f"p/part-{{1..{hosts}}}-of-{hosts}/"
    arrived: dict[str, bytes] = {}
    with served(site):
        for host in range(1, hosts + 1):
            tars, made = tmp_path / f"tars{host}", tmp_path / f"host{host}"
            words = {"urls": f"{site.url}/{folders}", "dir": str(tars)}
            lines(FETCH.planned({**words, "part": f"{host}/{hosts}"}))
            last = lines(UNTAR.planned({"tar": str(tars), "root": str(made)}))[-1]
            assert last.endswith(f"{4 // hosts} classes unpacked to {made}, none rejected")
            arrived |= contents(made)
    assert arrived == wanted


def test_a_second_run_writes_only_what_lacks_or_changed(root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "4 tars written" in partition(root, out)[-1]
    first = contents(out)
    assert "0 tars written" in partition(root, out)[-1]
    assert contents(out) == first
    (root / "n1" / "more.jpg").write_bytes(b"more")
    (out / "n2.tar").unlink()
    assert "2 tars written" in partition(root, out)[-1]
    assert {name for name, data in contents(out).items() if data != first[name]} == {
        *("files.tsv", "n1.tar")
    }


def test_folders_below_a_class_are_in_its_tar(root: Path, tmp_path: Path) -> None:
    """data.list makes them classes of their own, so they must arrive."""
    tree(root / "n1", {"below": 2})
    tree(root, {"only/below": 1})
    (root / "beside.jpg").write_bytes(b"x")
    notes = partition(root, tmp_path / "out")
    assert notes[0] == "1 images beside the class folders are in no tar"
    lines(UNTAR.planned({"tar": str(tmp_path / "out"), "root": str(tmp_path / "made")}))
    (root / "beside.jpg").unlink()
    assert contents(tmp_path / "made") == contents(root)
    assert "0 tars written" in partition(root, tmp_path / "out")[-1]


def test_a_tar_of_a_class_that_is_gone_is_not_uploaded_with_the_others(
    root: Path, tmp_path: Path
) -> None:
    partition(root, tmp_path / "out")
    shutil.rmtree(root / "n2")
    with pytest.raises(DataError, match=r"out/n2.tar: expected tars of these classes only.*Move"):
        partition(root, tmp_path / "out")


def test_an_older_image_that_was_moved_to_a_class_is_noticed(root: Path, tmp_path: Path) -> None:
    partition(root, tmp_path / "out")
    older = tmp_path / "older.jpg"
    older.write_bytes(bytes((root / "n1" / "0.jpg").stat().st_size))
    os.utime(older, (0, 0))
    older.rename(root / "n1" / "0.jpg")
    assert "1 tars written" in partition(root, tmp_path / "out")[-1]


def test_tars_are_the_same_on_every_host_and_of_the_computed_size(
    root: Path, tmp_path: Path
) -> None:
    partition(root, tmp_path / "a")
    for path in root.rglob("*.jpg"):
        path.chmod(0o600)
    partition(root, tmp_path / "b")
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    with tarfile.open(tmp_path / "a" / "n1.tar") as archive:
        assert len(archive.getnames()) == 3
    assert "0 tars written" in partition(root, tmp_path / "b")[-1]


def test_classes_that_no_list_can_name_and_too_many_shares_are_refused(
    root: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=r"expected at least 5 classes, got 4"):
        partition(root, tmp_path / "out", "1/5")
    for text in ("0/1", "2/1", "1", "a/b", "1/2/3"):
        with pytest.raises(DataError, match="--part: expected I/N"):
            partition(root, tmp_path / "out", text)
    tree(root, {"with\nline": 1})
    with pytest.raises(DataError, match="Rename it"):
        partition(root, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_upload_is_fetched_back_and_repeated_for_changed_files_only(
    root: Path, tmp_path: Path
) -> None:
    url = f"file://{tmp_path}/store"
    words = {"dir": str(root), "url": url}
    assert lines(UPLOAD.planned(words))[-1].endswith("9 uploaded")
    assert lines(UPLOAD.planned(words))[-1].endswith("0 uploaded")
    (root / "n1" / "0.jpg").write_bytes(b"changed")
    (tmp_path / "store" / "n2" / "0.jpg").unlink()
    assert lines(UPLOAD.planned(words))[-1].endswith("2 uploaded")
    assert lines(FETCH.planned({"urls": f"{url}/", "dir": str(tmp_path / "x")}))[-1].endswith(
        "9 fetched, 9 with checksums"
    )
    assert contents(tmp_path / "x") | contents(root) == contents(root)


def test_an_upload_to_a_web_server_or_of_nothing_is_one_line(root: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected a URL of s3://, gs:// or file://"):
        UPLOAD.planned({"dir": str(root), "url": "http://user:w0rd@h/"})
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="expected files, got none"):
        UPLOAD.planned({"dir": str(tmp_path / "empty"), "url": "file:///x"})
