"""Whole programs that fetch: killed, interrupted, on a disk that fills up."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.support.data.file_server import Site, served
from tests.support.hosts.pushes import on_a_disk_of_its_own
from tests.support.paths import ROOT
from tests.support.programs.commands import fab

PIECE = 8 << 20
PROGRAM = [sys.executable, "-m", "im2rec_tools", "fetch"]

pytestmark = pytest.mark.program


@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_a_fetch_that_is_ended_is_continued_by_the_same_command(
    tmp_path: Path, number: int, code: int
) -> None:
    data = b"0123456789abcdef" * (PIECE // 4)  # 4 pieces
    held = threading.Event()
    with served(Site(files={"a.bin": data})) as site:
        # Two pieces arrive, the other two wait.
        site.answer = lambda count: (count > 3 and not held.wait(20)) or None
        words = [*PROGRAM, f"{site.url}/a.bin", str(tmp_path / "x"), "--jobs", "1"]
        log = tmp_path / "x" / ".a.bin.part.log"
        with subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE) as process:
            try:
                deadline = time.monotonic() + 20
                while not (log.exists() and log.read_bytes().count(b"\n") == 3):
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
                process.send_signal(number)
                held.set()
                assert process.wait(10) == code
            finally:
                process.kill()
        site.answer, site.requests = lambda _: None, []
        assert subprocess.run(words, cwd=ROOT, check=False, timeout=60).returncode == 0
    assert (tmp_path / "x" / "a.bin").read_bytes() == data
    assert 1 <= len(site.pieces) <= 2


@pytest.mark.parametrize("sized", [True, False])
def test_a_disk_that_is_full_is_one_line_and_keeps_what_arrived(
    tmp_path: Path, sized: bool
) -> None:
    """The disk has 16 kB. Without a size, it fills up in the middle."""
    disk = tmp_path / "disk"
    with served(Site(files={"a.bin": b"0" * 100_000, "b.bin": b"1"}, sized=sized)) as site:
        site.ranges = sized
        words = f"{sys.executable} -m im2rec_tools fetch {site.url}/b.bin {disk}"
        both = f"{sys.executable} -m im2rec_tools fetch {site.url}/a.bin {disk}"
        found = on_a_disk_of_its_own(f"{words} && {{ {both} 2>&1; echo $?; ls {disk}; }}", disk)
    if sized:
        problem = "expected about 100 kB of free disk space, got 8.19 kB"
        assert f"error: {disk}: {problem}. Free some, or fetch to another disk" in found
    else:
        problem = "the disk is full,"
        assert any(problem in line and line.startswith(f"error: {disk}") for line in found)
    assert found[-2:] == ["2", "b.bin"]


def test_several_urls_are_words_of_the_task(tmp_path: Path) -> None:
    with served(Site(files={"a.bin": b"a", "b.bin": b"b"})) as site:
        words = [f"{site.url}/a.bin", "--jobs=2", f"{site.url}/b.bin", str(tmp_path / "x")]
        dry = fab("data.fetch", *words, "--dry-run")
        done = fab("data.fetch", *words)
    assert dry.stdout.splitlines() == [
        f"would fetch {site.url}/{name} to {tmp_path}/x/{name}" for name in ("a.bin", "b.bin")
    ]
    assert (done.returncode, done.stdout) == (
        0,
        f"2 files, 2 bytes in {tmp_path}/x: 2 fetched, 0 with checksums\n",
    )
    assert "fetching: 0/1 MB" in done.stderr


def test_no_output_has_the_credentials_of_a_url(tmp_path: Path) -> None:
    with served(Site(answer=lambda _: 403)) as site:
        url = f"{site.url}/a.bin?X-Amz-Signature=w0rd".replace("://", "://user:w0rd@")
        folder = str(tmp_path)
        for words in ([url, folder], [url], [url, folder, "--part=2/1"], [url, folder, "--nope"]):
            done = fab("data.fetch", *words)
            assert done.returncode == 2
            assert len(done.stderr.splitlines()) <= 2  # progress, and the error
            assert "w0rd" not in done.stdout + done.stderr
