"""Tars of class tars: unpacked safely, or packed directly."""

import bz2
import io
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from im2rec_tools.declarations import LIST, PACK, PREPARE
from im2rec_tools.errors import DataError
from im2rec_tools.formats.tars import Member, members, read_at
from tests.support.data.datasets import inner, tar_of_tars, untar
from tests.support.data.trees import jpeg, lines, tree
from tests.support.paths import ROOT
from tests.support.programs.jobs import until

pytestmark = pytest.mark.pythons

FORMATS = {"gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT, "ustar": tarfile.USTAR_FORMAT}


def same(first: Path, second: Path) -> bool:
    found = [
        {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*.*")}
        for root in (first, second)
    ]
    return found[0] == found[1]


@pytest.mark.parametrize("form", FORMATS)
def test_a_tar_of_class_tars_becomes_class_folders(tmp_path: Path, form: str) -> None:
    root = tree(tmp_path / "t", {"n01": 5, "n02": 3})
    (root / "n01" / f"{'long' * 20}.jpg").write_bytes(b"x" * 1000)
    tar = tar_of_tars(tmp_path / "a.tar", root, FORMATS[form])
    said = untar(tar, tmp_path / "full")
    assert said == [f"9 files, 2 classes unpacked to {tmp_path / 'full'}, none rejected"]
    assert same(root, tmp_path / "full")
    assert [path.name for path in sorted((tmp_path / "full").iterdir())] == ["n01", "n02"]


def test_unpacking_goes_on_where_it_was(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"n01": 5, "n02": 3})
    tar = tar_of_tars(tmp_path / "a.tar", root)
    untar(tar, tmp_path / "full")
    before = (tmp_path / "full" / "n01").stat().st_ino
    for path in (tmp_path / "full" / "n02").iterdir():
        path.unlink()
    (tmp_path / "full" / "n02").rmdir()
    assert untar(tar, tmp_path / "full")[0] == "1 of 2 exist already"
    assert same(root, tmp_path / "full")
    assert (tmp_path / "full" / "n01").stat().st_ino == before


def test_names_that_no_disk_can_hold_are_listed_and_the_rest_is_unpacked(tmp_path: Path) -> None:
    long = {
        f"{'a' * 250}.jpg": b"x",
        f"{'d/' * 20}{'e' * 240}/{'f' * 240}.jpg": b"x",
        "ok.jpg": b"y",
    }
    deep = {"/".join(["g" * 200] * 12) + "/a.jpg": b"x"}
    outer = {"n1.tar": inner(long | deep), f"{'c' * 300}.tar": inner({"a.jpg": b"x"})}
    (tmp_path / "a.tar").write_bytes(inner({**outer, "n2.tar": inner({"a.jpg": b"z"})}))
    last = untar(tmp_path / "a.tar", tmp_path / "u", max_bad="100%")[-1]
    assert last.startswith("3 files, 2 classes unpacked")
    assert last.count("3 rejected")
    assert (tmp_path / "u.bad.tsv").read_text().count("\tits name is too long\n") == 3
    assert (tmp_path / "u" / "n2" / "a.jpg").read_bytes() == b"z"


def test_a_rerun_rejects_no_name_twice(tmp_path: Path) -> None:
    """Names with what the list escapes: tabs, backslashes, bytes that are no UTF-8."""
    names = (
        "../tab\t.jpg",
        "../back\\slash.jpg",
        b"../\xff.jpg".decode("utf-8", "surrogateescape"),
    )
    (tmp_path / "a.tar").write_bytes(
        inner({**dict.fromkeys(names, b"x"), "n1.tar": inner({"a.jpg": b"x"})})
    )
    for _ in range(3):
        assert "3 rejected" in untar(tmp_path / "a.tar", tmp_path / "u", max_bad="100%")[-1]


def test_one_rejected_name_is_no_failure_unless_none_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(inner({"../b.jpg": b"x", "n1.tar": inner({"a.jpg": b"x"})}))
    assert "1 rejected" in untar(tmp_path / "a.tar", tmp_path / "u", max_bad="0.1")[-1]
    with pytest.raises(DataError, match=r"--max-bad 0 % allows 0\. Run again"):
        untar(tmp_path / "a.tar", tmp_path / "u", max_bad="0")


def test_a_named_pipe_is_no_tar(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.tar")
    with pytest.raises(DataError, match="expected a regular file"):
        untar(tmp_path / "a.tar", tmp_path / "u")


@pytest.mark.program
def test_a_killed_run_leaves_no_half_class_under_its_name(tmp_path: Path) -> None:
    big = {f"{n}.jpg": b"x" * 100 for n in range(2000)}
    tar = tmp_path / "a.tar"
    tar.write_bytes(inner({f"n0{n}.tar": inner(big) for n in range(3)}))
    command = [
        sys.executable,
        "-m",
        "im2rec_tools",
        "untar",
        str(tar),
        str(tmp_path / "full"),
    ]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        assert until((tmp_path / "full").is_dir, 20)
        time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
    for path in (tmp_path / "full").glob("n*"):
        assert len(list(path.iterdir())) == 2000
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert [len(list(path.iterdir())) for path in (tmp_path / "full").iterdir()] == [2000] * 3


def hostile() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name in ("../out.jpg", "/abs.jpg", "a/../../out.jpg", "good.jpg", "good.jpg"):
            member = tarfile.TarInfo(name)
            member.size = 3
            archive.addfile(member, io.BytesIO(b"abc"))
        for name, kind in (
            ("link.jpg", tarfile.SYMTYPE),
            ("hard.jpg", tarfile.LNKTYPE),
            ("device.jpg", tarfile.CHRTYPE),
            ("pipe.jpg", tarfile.FIFOTYPE),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
        within = tarfile.TarInfo("link.jpg/inside.jpg")
        within.size = 3
        archive.addfile(within, io.BytesIO(b"abc"))
    return file.getvalue()


def test_nothing_leaves_the_folder_and_what_is_refused_is_listed(tmp_path: Path) -> None:
    tar = tmp_path / "in" / "a.tar"
    tar.parent.mkdir()
    tar.write_bytes(inner({"n01.tar": hostile(), "../evil.tar": inner({"x.jpg": b"1"})}))
    full = tmp_path / "in" / "full"
    with pytest.raises(
        DataError, match=r"2 files, 1 classes .*, 9 rejected so far, see .*bad\.tsv; --max"
    ):
        untar(tar, full)
    files = (path for path in tmp_path.rglob("*.jpg") if path.is_file())
    found = sorted(str(path.relative_to(tmp_path)) for path in files)
    assert found == ["in/full/n01/good.jpg", "in/full/n01/link.jpg/inside.jpg"]
    with pytest.raises(DataError, match=r"0 files, 0 classes .*, 9 rejected so far"):
        untar(tar, full)
    rows = (tmp_path / "in" / "full.bad.tsv").read_text().splitlines()
    assert len(rows) == 9
    assert "../evil.tar\tits name leads out of the folder" in rows
    assert "n01.tar/link.jpg\ta link, a device or a sparse file" in rows


def test_a_flat_tar_is_unpacked_as_it_is(tmp_path: Path) -> None:
    tar = tmp_path / "val.tar"
    tar.write_bytes(inner({"a.JPEG": b"1", "b.JPEG": b"22"}))
    untar(tar, tmp_path / "val")
    assert sorted(path.name for path in (tmp_path / "val").iterdir()) == ["a.JPEG", "b.JPEG"]


@pytest.mark.parametrize("damage", ["cut", "end", "text", "gone", "bzip2", "inner", "header"])
def test_a_damaged_tar_is_refused(tmp_path: Path, damage: str) -> None:
    tar = tar_of_tars(tmp_path / "a.tar", tree(tmp_path / "t", {"n01": 5, "n02": 5}))
    whole = tar.read_bytes()
    header = bytearray(whole)
    header[whole.index(b"2.jpg") + 100] ^= 1
    changed = {
        "cut": whole[: len(whole) // 2],
        "end": whole.rstrip(b"\0"),
        "text": b"hello",
        "bzip2": bz2.compress(whole),
        "inner": inner({"n01.tar": b"no tar in here" * 100}),
        "header": bytes(header),
    }
    if damage == "gone":
        tar.unlink()
    else:
        tar.write_bytes(changed[damage])
    in_a_class = damage in {"inner", "header"}
    message = r"1 rejected so far, see .*; 1 class tars are damaged" if in_a_class else r"a\.tar"
    for _ in range(2):
        with pytest.raises(DataError, match=message):
            untar(tar, tmp_path / "full")
    # The classes that are whole are there.
    assert len(list((tmp_path / "full").glob("n*"))) == (damage == "header")


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(
        st.text("abc/. \u00e9\u732b", min_size=1, max_size=120), st.binary(max_size=600)
    ),
    st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
)
def test_every_member_is_found_where_it_lies(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], form: int
) -> None:
    tar = tmp_path_factory.mktemp("tar") / "a.tar"
    tar.write_bytes(inner(files, form))
    with tar.open("rb") as file:
        for member in members(tar):
            if isinstance(member, Member):
                data = read_at(file.fileno(), member.offset, member.size)
                assert data in files.values()
                assert ".." not in member.name.split("/")


def test_packing_from_the_tar_makes_the_same_bytes_as_from_the_tree(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"n01": 40, "n02": 30})
    (root / "n01" / "zero.jpg").touch()
    (root / "n01" / "notes.txt").write_text("no image")
    tar = tar_of_tars(tmp_path / "a.tar", root)
    given = {"chunks": "3", "max_bad": "5"}
    lines(PACK.planned({"prefix": f"{tmp_path}/x/x", "root": str(tar), "from_tar": True, **given}))
    lines(LIST.planned({"prefix": f"{tmp_path}/y/x", "root": str(root), "chunks": "3"}))
    lines(PACK.planned({"prefix": f"{tmp_path}/y/x", "root": str(root), **given}))
    assert same(tmp_path / "x", tmp_path / "y")
    assert len(list((tmp_path / "x").glob("*.rec"))) == 3
    lst = tmp_path / "x" / "x_0.lst"
    lst.write_text(lst.read_text() + "99\t0.000000\tn01/other.jpg\n")
    (tmp_path / "x" / "x_0.rec").unlink()
    with pytest.raises(DataError, match=r"a\.tar: expected n01/other\.jpg, which a list names"):
        lines(PACK.planned({"prefix": f"{tmp_path}/x/x", "root": str(tar), "from_tar": True}))


def test_prepare_goes_from_the_tar_to_shards_and_on_where_it_was(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"n01": 9, "n02": 3, "n03": 8})
    tar = tar_of_tars(tmp_path / "full.tar", root)
    given = {"dir": str(tar), "min_images": "5", "val_per_class": "2", "train_shards": "2"}
    first = lines(PREPARE.planned(given))
    assert any(line.startswith("17 images in 3 shards, ") for line in first)
    assert (tmp_path / "full" / "n02").is_dir()  # a class with too few images stays in place
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.rec")}
    assert lines(PREPARE.planned(given))[-1] == first[-1]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.rec")} == before


def with_size(name: str, size: int) -> bytes:
    """Return a header whose size is this number in base 256."""
    member = tarfile.TarInfo(name)
    header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" + size.to_bytes(11, "big", signed=True)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def odd(tmp_path: Path) -> Path:
    """Return a tar of one good class tar and of members that no program can unpack."""
    good = inner({"a.jpg": jpeg(70, 70), "b.jpg": jpeg(80, 80)})
    damaged = with_size("minus.jpg", -5) + inner({"c.jpg": jpeg(90, 90)})
    files = inner({"..tar": good, "n01.tar": good, "n02.tar": damaged, "n03.tar": good})
    path = tmp_path / "odd.tar"
    path.write_bytes(with_size("n00.tar", -1024) + files)
    return path


def test_a_member_without_a_usable_name_or_size_is_skipped_and_named(tmp_path: Path) -> None:
    untar(odd(tmp_path), tmp_path / "full", max_bad="60")
    found = sorted(str(path.relative_to(tmp_path / "full")) for path in tmp_path.rglob("*.jpg"))
    assert found == ["n01/a.jpg", "n01/b.jpg", "n02/c.jpg", "n03/a.jpg", "n03/b.jpg"]
    refused = dict(
        line.split("\t") for line in (tmp_path / "full.bad.tsv").read_text().splitlines()
    )
    assert refused == {
        "n00.tar": "its size is -1024",
        "..tar": "its name leads out of the folder",
        "n02.tar/minus.jpg": "its size is -5",
    }


def test_packing_from_a_tar_counts_and_lists_what_it_refuses(tmp_path: Path) -> None:
    given = {"prefix": str(tmp_path / "x"), "root": str(odd(tmp_path)), "from_tar": True}
    with pytest.raises(DataError, match=r"3 bad: .*: more bad images than --max-bad"):
        lines(PACK.planned(given))
    said = lines(PACK.planned({**given, "max_bad": "60"}))
    rows = (tmp_path / "odd.tar.bad.tsv").read_text().splitlines()
    assert sorted(row.split("\t")[0] for row in rows) == [
        "..tar",
        "n00.tar",
        "n02.tar/minus.jpg",
    ]
    assert f"3 members of {tmp_path}/odd.tar rejected, see {tmp_path}/odd.tar.bad.tsv" in said
    assert said[-1].startswith("5 images in 1 shards")
    assert "3 bad" in said[-1]


def test_what_is_in_a_tar_twice_is_skipped_and_named(tmp_path: Path) -> None:
    first, again = inner({"a.jpg": jpeg(70, 70)}), inner({"b.jpg": jpeg(80, 80)})
    tar = tmp_path / "a.tar"
    with tarfile.open(tar, "w") as archive:
        for name, data in (
            ("n01.tar", first),
            ("n01.tar", again),
            ("x/n01.tar", again),
            ("n01/loose.jpg", jpeg(60, 60)),
            (".tar", again),
            ("n02.tar", again),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    for _ in range(2):
        untar(tar, tmp_path / "full", max_bad="80")
        found = sorted(str(path.relative_to(tmp_path / "full")) for path in tmp_path.rglob("*.jpg"))
        assert found == ["n01/a.jpg", "n02/b.jpg"]
        rows = (tmp_path / "full.bad.tsv").read_text().splitlines()
        assert dict(row.split("\t") for row in rows) == {
            "n01.tar": "duplicate name in the tar",
            "x/n01.tar": "duplicate name in the tar",
            "n01/loose.jpg": "its path is both a file and a folder in the tar",
            ".tar": "its name has no class",
        }
