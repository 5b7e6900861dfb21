"""Fetches: complete, checked, resumed, and one line for what fails."""

import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from google_crc32c import value as crc32c

from im2rec_tools.errors import DataError
from im2rec_tools.files import part_of
from im2rec_tools.transfer.download import Retries
from im2rec_tools.transfer.fetch_job import FetchJob, fetch
from im2rec_tools.transfer.urls import parse_urls
from tests.support.data.file_server import Site, served

PIECE = 1000
DATA = bytes(range(256)) * 20  # 6 pieces


@pytest.fixture
def site() -> Iterator[Site]:
    with served(Site(files={"a.bin": DATA, "b.bin": DATA[::-1], "empty": b""})) as running:
        yield running


def fetched(site: Site, folder: Path, names: str = "a.bin", **more: Any) -> str:
    """Fetch, check that the files are the served ones, and return the last line."""
    texts = " ".join(f"{site.url}/{name}" for name in names.split())
    job = FetchJob(
        urls=parse_urls("URL", texts),
        folder=folder,
        piece=PIECE,
        retries=Retries(pause_seconds=0.001),
        **more,
    )
    last = [one for one in fetch(job) if isinstance(one, str)][-1]
    for path in folder.rglob("[!.]*"):
        assert path.is_dir() or path.read_bytes() == site.files[str(path.relative_to(folder))]
    assert not list(folder.rglob(".*.part*"))
    return last


def refused(site: Site, folder: Path, names: str = "a.bin", **more: Any) -> str:
    with pytest.raises(DataError) as caught:
        fetched(site, folder, names, **more)
    assert not (folder / names.split(maxsplit=1)[0]).exists()
    assert "Traceback" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("jobs", [1, 8])
def test_files_arrive_whole_and_once(site: Site, tmp_path: Path, jobs: int) -> None:
    last = fetched(site, tmp_path, "a.bin b.bin empty", jobs=jobs)
    assert last == f"3 files, 10.2 kB in {tmp_path}: 3 fetched, 0 with checksums"
    assert len(site.pieces) == 12
    assert "0 fetched" in fetched(site, tmp_path, "a.bin b.bin empty")
    assert len(site.pieces) == 12


@pytest.mark.parametrize("sized", [True, False])
def test_a_server_without_ranges_sends_a_file_in_one_piece(
    site: Site, tmp_path: Path, sized: bool
) -> None:
    site.ranges, site.sized = False, sized
    fetched(site, tmp_path, "a.bin empty")


def test_a_part_is_continued_and_only_if_its_bytes_are_right(site: Site, tmp_path: Path) -> None:
    site.answer = lambda number: 403 if number > 5 else None
    assert "a.bin: access denied (HTTP 403)" in refused(site, tmp_path, jobs=1)
    part = part_of(tmp_path / "a.bin")
    assert part.read_bytes() == DATA[: 4 * PIECE]
    with part.open("r+b") as file:
        file.write(b"damaged")
    site.answer, site.requests = lambda _: None, []
    fetched(site, tmp_path, jobs=1)
    assert site.pieces == ["bytes=0-999", "bytes=4000-4999", "bytes=5000-5119"]


@pytest.mark.parametrize("validators", [("Last-Modified",), ()])
def test_a_part_of_other_content_is_not_continued(
    site: Site, tmp_path: Path, validators: tuple[str, ...]
) -> None:
    site.answer, site.validators = lambda number: 403 if number > 3 else None, validators
    refused(site, tmp_path, jobs=1)
    if validators:  # without one, the content of a part is unknown
        site.files["a.bin"] = DATA[1:]
    site.answer, site.requests = lambda _: None, []
    fetched(site, tmp_path, jobs=1)
    assert len(site.pieces) == 6


@pytest.mark.parametrize("answer", [503, 429, 0])
def test_errors_that_pass_are_tried_again(site: Site, tmp_path: Path, answer: int) -> None:
    site.answer = lambda number: answer if number in {1, 2, 3, 5, 9} else None
    fetched(site, tmp_path)


def test_a_server_that_stays_down_is_one_line_and_the_next_run_continues(
    site: Site, tmp_path: Path
) -> None:
    site.answer = lambda number: 503 if number > 4 else None
    found = refused(site, tmp_path, jobs=1)
    assert (
        found
        == f"{site.url}/a.bin: the server answered HTTP 503. Run the same command again to continue"
    )
    site.answer, site.requests = lambda _: None, []
    fetched(site, tmp_path, jobs=1)
    assert len(site.pieces) == 3


def test_files_of_a_fetch_that_ends_in_the_middle_are_known_to_the_next(
    site: Site, tmp_path: Path
) -> None:
    """Whatever ends it leaves no chance to write something, as SIGKILL or a full disk."""
    job = FetchJob(urls=parse_urls("URL", f"{site.url}/a.bin {site.url}/b.bin"), folder=tmp_path)
    run = fetch(job)
    for _ in run:
        if (tmp_path / "a.bin").exists():
            break
    ledger = tmp_path / ".mxscale-fetched"
    then = ledger.read_bytes()
    del run  # ends it
    ledger.write_bytes(then)
    (tmp_path / "b.bin").unlink(missing_ok=True)
    assert fetched(site, tmp_path, "a.bin b.bin").endswith("1 fetched, 0 with checksums")


def test_a_file_without_a_size_is_known_by_its_validator(site: Site, tmp_path: Path) -> None:
    site.ranges = site.sized = False
    fetched(site, tmp_path)
    assert "0 fetched" in fetched(site, tmp_path)
    site.validators = ()
    fetched(site, tmp_path / "x")
    assert "1 fetched" in fetched(site, tmp_path / "x")


def test_an_index_that_is_denied_counts_as_absent(site: Site, tmp_path: Path) -> None:
    """Stores deny missing files, too, to those who may not list the folder."""
    site.files["a.rec"] = DATA
    site.denied = ("a.idx", "a.json")
    assert fetched(site, tmp_path, "a.rec").startswith("1 files")
    site.denied = ("a.rec",)
    assert "a.rec: access denied" in refused(site, tmp_path / "x", "a.rec")


def test_a_compressed_file_may_be_named_so_in_the_answer(site: Site, tmp_path: Path) -> None:
    site.files["a.tar.gz"] = DATA
    site.headers["Content-Encoding"] = "x-gzip"
    fetched(site, tmp_path, "a.tar.gz")


def test_an_empty_file_of_a_server_that_answers_416_only(site: Site, tmp_path: Path) -> None:
    site.answer = lambda number: 416 if number in {1, 3} else None
    assert "1 files, 0 bytes" in fetched(site, tmp_path, "empty")


def test_missing_files_are_found_before_anything_is_fetched(site: Site, tmp_path: Path) -> None:
    found = refused(site, tmp_path, "no1 a.bin no2")
    assert "2 of 3 files: not fetched" in found
    assert "/no1: no such file (HTTP 404)" in found
    assert site.pieces == []


def test_one_damaged_file_ends_no_other(site: Site, tmp_path: Path) -> None:
    sums = [f"{sha256(site.files[name]).hexdigest()}  {name}" for name in ("b.bin", "empty")]
    (tmp_path / "sums").write_text("\n".join([f"{0:064x}  a.bin", *sums]))
    folder = tmp_path / "x"
    found = refused(site, folder, "a.bin b.bin empty", checksums=str(tmp_path / "sums"))
    assert found.startswith(f"{site.url}/a.bin: expected sha256 0000")
    assert sorted(path.name for path in folder.glob("[!.]*")) == ["b.bin", "empty"]


def test_a_file_that_changes_between_parts_is_fetched_again(site: Site, tmp_path: Path) -> None:
    def change(number: int) -> None:
        if number == 4:
            site.files["a.bin"] = DATA[::-1]

    site.answer = change
    fetched(site, tmp_path, jobs=1)
    assert (tmp_path / "a.bin").read_bytes() == DATA[::-1]


def test_a_file_that_keeps_changing_is_refused(site: Site, tmp_path: Path) -> None:
    def change(number: int) -> None:
        site.files["a.bin"] = bytes([number]) * len(DATA)

    site.answer = change
    assert "changes while it is fetched" in refused(site, tmp_path)
    assert not list(tmp_path.glob(".*part*"))


def test_a_file_that_changed_at_the_source_is_replaced_and_one_of_the_user_is_not(
    site: Site, tmp_path: Path
) -> None:
    fetched(site, tmp_path)
    site.files["a.bin"] = DATA[::-1]
    assert "1 fetched" in fetched(site, tmp_path)
    (tmp_path / "a.bin").write_bytes(b"mine")
    with pytest.raises(DataError, match="got another file"):
        fetched(site, tmp_path)
    assert (tmp_path / "a.bin").read_bytes() == b"mine"


@pytest.mark.parametrize("form", ["sha256", "crc32c", "files.tsv"])
def test_checksums_are_checked(site: Site, tmp_path: Path, form: str) -> None:
    crc = f"{crc32c(DATA):08x}"
    listed = {
        "sha256": f"{sha256(DATA).hexdigest()}  a.bin\n",
        "crc32c": f"# ours\n\n{crc} *./a.bin\n",
        "files.tsv": f"# name\tbytes\tcrc32c\na.bin\t{len(DATA)}\t{crc}\n",
    }[form]
    (tmp_path / "sums").write_text(listed)
    sums = str(tmp_path / "sums")
    assert "1 with checksums" in fetched(site, tmp_path / "x", checksums=sums)
    site.files["a.bin"] = DATA[::-1]
    found = refused(site, tmp_path / "y", checksums=sums)
    assert "the file is removed" in found
    assert not list((tmp_path / "y").glob(".*part*"))
    assert "expected a checksum of b.bin" in refused(site, tmp_path, "b.bin", checksums=sums)


def test_google_s_checksum_of_an_object_is_checked(site: Site, tmp_path: Path) -> None:
    site.headers["x-goog-hash"] = "md5=AAAA,crc32c=AAAAAA=="
    found = refused(site, tmp_path)
    assert f"expected crc32c 00000000, got {crc32c(DATA):08x}" in found


def test_too_small_a_disk_is_found_before_anything_is_fetched(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("im2rec_tools.files.free_space", lambda _: 5000)
    assert "expected about 5.12 kB of free disk space, got 5 kB" in refused(site, tmp_path)
    assert site.pieces == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write anywhere")
def test_a_folder_that_cannot_be_written_is_one_line(site: Site, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "cannot be written" in refused(site, tmp_path)
