"""Servers and lists that are not trusted: redirects, names, headers, links."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from im2rec_tools.errors import DataError
from im2rec_tools.files import part_of
from im2rec_tools.transfer.download import Retries
from im2rec_tools.transfer.fetch_job import FetchJob, fetch
from im2rec_tools.transfer.urls import parse_urls
from tests.support.data.file_server import Site, served


@pytest.fixture
def site() -> Iterator[Site]:
    with served(Site(files={"a.bin": b"content"})) as running:
        yield running


def run(text: str, folder: Path) -> None:
    retries = Retries(tries=2, pause_seconds=0.001)
    list(fetch(FetchJob(urls=parse_urls("URL", text), folder=folder, retries=retries)))


def refused(text: str, folder: Path) -> str:
    with pytest.raises(DataError) as caught:
        run(text, folder)
    assert not [path for path in folder.rglob("*") if path.is_file() and path.name[0] != "."]
    return str(caught.value)


def test_a_redirect_to_another_server_is_followed_without_the_login(
    site: Site, tmp_path: Path
) -> None:
    with served(Site(files={"other.bin": b"moved"})) as other:
        site.moved["a.bin"] = f"{other.url}/other.bin"
        run(f"{site.url.replace('://', '://user:w0rd@')}/a.bin", tmp_path)
    assert (tmp_path / "a.bin").read_bytes() == b"moved"
    login = base64.b64encode(b"user:w0rd").decode()
    assert {one for *_, one in site.requests} == {f"Basic {login}"}
    assert {one for *_, one in other.requests} == {""}


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "ftp://h/a", "s3://b/k", "", "gopher://h/"]
)
def test_a_redirect_leaves_no_http_server(site: Site, tmp_path: Path, target: str) -> None:
    site.moved["a.bin"] = target
    assert "expected a redirect to http:// or https://" in refused(f"{site.url}/a.bin", tmp_path)
    site.moved["a.bin"] = "http://["
    assert "the request failed" in refused(f"{site.url}/a.bin", tmp_path)


def test_redirects_in_a_circle_end(site: Site, tmp_path: Path) -> None:
    site.moved["a.bin"] = "/a.bin"
    assert "more than 5 redirects" in refused(f"{site.url}/a.bin", tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        *("../x\t7\t00000000", "/etc/x\t7\t00000000", "a/../../x\t7\t00000000"),
        *(".x\t7\t00000000", "x\t-7\t00000000", "x\t7\tnone", "x", "x\t7", f"{0:064x}  ../x"),
        *(
            "http://h/x\t7\t00000000",
            "b/c\t7\t00000000\nb\t7\t00000000",
            "a.bin\t7\t00000000\na.bin\t7\t00000000",
        ),
    ],
)
def test_a_list_names_files_below_the_folder_only(site: Site, tmp_path: Path, line: str) -> None:
    site.files["d/files.tsv"] = f"# name\tbytes\tcrc32c\n{line}\n".encode()
    assert refused(f"{site.url}/d/", tmp_path).startswith(f"{site.url}/d/files.tsv")


def test_a_list_that_is_no_text_or_absent_is_one_line(site: Site, tmp_path: Path) -> None:
    site.files["d/files.tsv"] = b"\xff\xfe"
    assert "expected a text in UTF-8" in refused(f"{site.url}/d/", tmp_path)
    assert "expected files.tsv in the folder" in refused(f"{site.url}/e/", tmp_path)


def test_a_listed_size_is_checked_before_the_file_is_fetched(site: Site, tmp_path: Path) -> None:
    site.files["d/files.tsv"] = b"a.bin\t6\t00000000\n"
    site.files["d/a.bin"] = b"content"
    assert "expected 6 bytes, as listed, got 7" in refused(f"{site.url}/d/", tmp_path)


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Encoding": "gzip"},
        {"Content-Range": "bytes 0-0/*"},
        {"Content-Range": "bytes 0-0/99999999999999999999999"},
    ],
)
def test_answers_that_cannot_be_used_are_one_line(
    site: Site, tmp_path: Path, headers: dict[str, str]
) -> None:
    site.headers = headers
    site.ranges = "Content-Range" not in headers
    site.answer = lambda _: 206 if "Content-Range" in headers else None
    assert "expected a usable" in refused(f"{site.url}/a.bin", tmp_path)


def test_no_error_has_the_credentials_of_its_url(site: Site, tmp_path: Path) -> None:
    host = site.url.removeprefix("http://")
    site.answer = lambda number: (401, 403, 404, 500, 0)[number % 5]
    for place in (host, "127.0.0.1:1", "no-such-host.invalid"):
        for _ in range(5):
            found = refused(f"http://user:w0rd@{place}/a.bin?sig=w0rd", tmp_path)
            assert found.startswith(f"http://{place}/a.bin: ")
            assert "w0rd" not in found
    run_anyway = f"http://user:w0rd@{host}/a.bin?sig=w0rd"
    site.answer = lambda _: None
    run(run_anyway, tmp_path)
    assert b"w0rd" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_links_in_the_folder_are_not_followed(site: Site, tmp_path: Path) -> None:
    kept, folder = tmp_path / "kept", tmp_path / "x"
    kept.write_text("mine")
    folder.mkdir()
    part_of(folder / "a.bin").symlink_to(kept)
    part_of(folder / "a.bin").with_name(".a.bin.part.log").symlink_to(kept)
    run(f"{site.url}/a.bin", folder)
    assert kept.read_text() == "mine"
    (folder / "a.bin").unlink()
    (folder / "a.bin").symlink_to(kept)
    with pytest.raises(DataError, match="got another file"):
        run(f"{site.url}/a.bin", folder)
    site.files |= {"sub/b": b"b", "files.tsv": b"sub/b\t1\t00000000\n"}
    (folder / "sub").symlink_to(tmp_path)
    with pytest.raises(DataError, match="a link leads out of the folder"):
        run(f"{site.url}/", folder)
    assert kept.read_text() == "mine"
