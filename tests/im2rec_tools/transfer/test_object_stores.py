"""Object stores: a real S3 server, and an environment without the libraries."""

import json
import os
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google_crc32c import value

from im2rec_tools.declarations import FETCH, UPLOAD
from im2rec_tools.errors import DataError
from im2rec_tools.transfer.object_store import ObjectStore
from tests.support.data.file_server import Site, served
from tests.support.data.google_store import google_store
from tests.support.data.trees import lines
from tests.support.paths import ROOT

DATA = bytes(range(256)) * 40_000  # 10 MB: two pieces


def test_a_missing_library_is_one_line_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(DataError, match=r"is not installed. Install it with 'make remote'$"):
        ObjectStore("s3")


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Start an S3 server; yield a client for its bucket."""
    boto3 = pytest.importorskip("boto3", reason="needs 'make test-slow'")
    pytest.importorskip("s3fs", reason="needs 'make remote'")
    moto = pytest.importorskip("moto.server", reason="needs 'make test-slow'")

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "w0rd-id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "w0rd-key")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    client = boto3.client("s3")
    client.create_bucket(Bucket="bucket")
    try:
        yield client
    finally:
        client.close()
        server.stop()


def fetch(urls: str, folder: Path) -> str:
    return lines(FETCH.planned({"urls": urls, "dir": str(folder)}))[-1]


@pytest.mark.slow
def test_objects_of_google_are_fetched_and_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("gcsfs", reason="needs 'make remote'")
    crc = b64encode(value(DATA).to_bytes(4, "big")).decode()
    about = {"name": "a", "size": str(len(DATA)), "generation": "7", "crc32c": crc}
    place = "storage/v1/b/bucket/o/a"
    files = {place: json.dumps({**about, "bucket": "bucket"}).encode(), f"download/{place}": DATA}
    with served(Site(files=files)) as site:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", site.url)
        fetch("gs://bucket/a", tmp_path)
        assert (tmp_path / "a").read_bytes() == DATA
        with pytest.raises(DataError, match=r"^gs://bucket/none: no such object"):
            fetch("gs://bucket/none", tmp_path)
        site.files[f"download/{place}"] = DATA[::-1]
        with pytest.raises(DataError, match="expected crc32c"):
            fetch("gs://bucket/a", tmp_path / "x")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
def test_objects_are_uploaded_to_google(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gcsfs", reason="needs 'make remote'")
    folder = tmp_path / "x"
    (folder / "train").mkdir(parents=True)
    (folder / "train" / "big file.bin").write_bytes(DATA)  # in parts, the other in one request
    (folder / "small").write_bytes(b"1")
    words = {"dir": str(folder), "url": "gs://bucket/data"}
    with google_store() as url:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
        assert lines(UPLOAD.planned(words))[-1].endswith("2 uploaded")
        assert lines(UPLOAD.planned(words))[-1].endswith("0 uploaded")
        assert "2 fetched, 2 with checksums" in fetch("gs://bucket/data/", tmp_path / "a")
    assert (tmp_path / "a" / "train" / "big file.bin").read_bytes() == DATA


@pytest.mark.slow
def test_an_error_of_google_s_library_is_one_line(tmp_path: Path) -> None:
    """It logs tracebacks, and the addresses of uploads, which grant them."""
    pytest.importorskip("gcsfs", reason="needs 'make remote'")
    (tmp_path / "a").write_bytes(b"1")
    with served(Site(answer=lambda _: 400)) as site:
        words = [sys.executable, "-m", "im2rec_tools", "upload", str(tmp_path), "gs://bucket/x/"]
        env = {**os.environ, "STORAGE_EMULATOR_HOST": site.url}
        done = subprocess.run(
            words, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=60
        )
    assert done.returncode == 2
    last = done.stderr.splitlines()
    assert last[-1].startswith("error: gs://bucket/x/")
    assert not [one for one in last[:-1] if not one.startswith("uploading: ")]


@pytest.mark.slow
def test_objects_are_uploaded_listed_and_fetched(bucket: Any, tmp_path: Path) -> None:
    folder = tmp_path / "x"
    (folder / "train").mkdir(parents=True)
    (folder / "train" / "big file.bin").write_bytes(DATA)
    (folder / "small").write_bytes(b"1")
    (folder / "empty").write_bytes(b"")
    words = {"dir": str(folder), "url": "s3://bucket/data"}
    assert lines(UPLOAD.planned(words))[-1].endswith("3 uploaded")
    assert lines(UPLOAD.planned(words))[-1].endswith("0 uploaded")
    assert "3 fetched, 3 with checksums" in fetch("s3://bucket/data/", tmp_path / "a")
    assert "0 fetched" in fetch("s3://bucket/data/", tmp_path / "a")
    assert (tmp_path / "a" / "train" / "big file.bin").read_bytes() == DATA
    # Without the list, the objects below the folder; one by its key.
    bucket.delete_object(Bucket="bucket", Key="data/files.tsv")
    assert "3 fetched, 0 with checksums" in fetch("s3://bucket/data/", tmp_path / "b")
    assert fetch("s3://bucket/data/small", tmp_path / "c").startswith("1 files, 1 bytes")
    bucket.put_object(Bucket="bucket", Key="data/small", Body=b"2")
    assert "1 fetched" in fetch("s3://bucket/data/small", tmp_path / "c")


@pytest.mark.slow
def test_an_object_that_changes_between_parts_is_fetched_again(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put_object(Bucket="bucket", Key="a", Body=DATA)
    read, changes = ObjectStore.read, [DATA[::-1]]

    def change(self: ObjectStore, *args: Any) -> Iterator[bytes]:
        yield from read(self, *args)
        if changes:
            bucket.put_object(Bucket="bucket", Key="a", Body=changes.pop())

    monkeypatch.setattr(ObjectStore, "read", change)
    fetch("s3://bucket/a", tmp_path)
    assert (tmp_path / "a").read_bytes() == DATA[::-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "url", ["s3://bucket/none", "s3://none/a", "s3://none/", "s3://bucket/none/"]
)
def test_what_is_not_there_is_one_line(bucket: Any, tmp_path: Path, url: str) -> None:
    with pytest.raises(DataError) as caught:
        fetch(url, tmp_path)
    assert str(caught.value).startswith(url)
    assert "Check" in str(caught.value)


@pytest.mark.slow
def test_credentials_are_in_no_output_and_no_file(bucket: Any, tmp_path: Path) -> None:
    bucket.put_object(Bucket="bucket", Key="a", Body=b"1")
    for url, code in (("s3://bucket/a", 0), ("s3://none/a", 2)):
        words = [sys.executable, "-m", "im2rec_tools", "fetch", url, str(tmp_path / "x")]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == code
        assert "w0rd" not in done.stdout + done.stderr
    written = b"".join(path.read_bytes() for path in (tmp_path / "x").iterdir())
    assert b"w0rd" not in written
