"""Each row of docs/reference/im2rec-differences.md has a test."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path

import cv2
import numpy as np
import pytest

from im2rec_tools import im2rec
from im2rec_tools.formats.recordio import records, unpack
from tests.support.data.trees import encoded, jpeg, pixels, tree
from tests.support.paths import ROOT

Row = Callable[..., None]
ROWS: dict[str, Row] = {}


def row(name: str) -> Callable[[Row], Row]:
    def kept(test: Row) -> Row:
        ROWS[name] = test
        return test

    return kept


def ours(*args: str) -> int:
    return im2rec.main(list(args))


# Upstream's program for each line of words; MXNet, which it imports, is loaded once for all.
PROGRAMS = """
import json, os, runpy, sys
import bench.training.mxnet_shim

for line in sys.stdin:
    pid = os.fork()
    if not pid:
        words, output = json.loads(line)
        os.dup2(os.open(output, os.O_CREAT | os.O_WRONLY), 1)
        sys.argv[1:] = words
        runpy.run_module("benchmarks.upstream", run_name="__main__")
        sys.stdout.flush()
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
Upstream = Callable[..., str]


@pytest.fixture(scope="module")
def programs() -> Iterator["subprocess.Popen[str]"]:
    """Start the parent process of upstream's programs."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAMS],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    ) as process:
        yield process
        process.stdin.close()


@pytest.fixture
def upstream(programs: "subprocess.Popen[str]", tmp_path: Path) -> Upstream:
    """Run upstream's program; return its output."""

    def run(*words: str) -> str:
        output = tmp_path / "output"
        output.write_text("")
        programs.stdin.write(json.dumps([words, str(output)]) + "\n")
        programs.stdin.flush()
        assert programs.stdout.readline() == "0\n"
        return output.read_text()

    return run


def count(rec: Path) -> int:
    return sum(1 for _ in records(rec))


def images(rec: Path) -> list[bytes]:
    return [unpack(payload, str(rec)).image for _, payload in records(rec)]


def listed(folder: Path, *more: str, name: str = "x") -> str:
    """Return the prefix of mxscale's list of folder/t, followed by these lines."""
    prefix = str(folder / name)
    assert ours("--list", "--recursive", prefix, str(folder / "t")) == 0
    with Path(f"{prefix}.lst").open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in more)
    return prefix


@row("unreadable images")
def unreadable(folder: Path) -> None:
    root = tree(folder / "t", {"cat": 3})
    for name in ("more.jpg", "text.jpg"):
        (root / "cat" / name).write_text("hello")
    prefix = listed(folder)
    assert ours(prefix, str(root)) == 2
    assert "cat/text.jpg" in (folder / "x.bad.tsv").read_text()
    assert count(folder / "x.rec") == 3
    assert ours("--max-bad", "50", prefix, str(root)) == 0


@row("truncated and damaged JPEGs")
def truncated(folder: Path, upstream: Upstream) -> None:
    root = tree(folder / "t", {"cat": 3})
    (root / "cat" / "cut.jpg").write_bytes(jpeg(90, 90)[:-200])
    prefix = listed(folder)
    assert ours(prefix, str(root)) == 0
    assert "cat/cut.jpg" in (folder / "x.bad.tsv").read_text()
    assert count(folder / "x.rec") == 3
    (folder / "x.rec").unlink()
    upstream("--num-thread", "2", prefix, str(root))
    assert count(folder / "x.rec") == 4


@row("scaling down")
def scaling(folder: Path, upstream: Upstream) -> None:
    """A checkerboard of pixels averages to gray; linear interpolation keeps dots."""
    (folder / "t").mkdir()
    board = (np.indices((512, 512)).sum(axis=0) % 3 == 0).astype(np.uint8) * 255
    (folder / "t" / "a.png").write_bytes(encoded(".png", board))
    scatter = []
    for name, pack in (("ours", ours), ("theirs", upstream)):
        prefix = listed(folder, name=name)
        pack("--resize", "64", "--num-thread", "2", prefix, str(folder / "t"))
        scatter.append(pixels(images(folder / f"{name}.rec")[0], cv2.IMREAD_GRAYSCALE).std())
    assert scatter[0] < scatter[1]


@row("shards")
def shards(folder: Path) -> None:
    root = tree(folder / "t", {"cat": 3})
    prefix = listed(folder)
    assert ours(prefix, str(root)) == 0
    assert (folder / "x.json").is_file()
    before = (folder / "x.rec").stat().st_mtime_ns
    assert ours(prefix, str(root)) == 0
    assert (folder / "x.rec").stat().st_mtime_ns == before


@row("shards that are there")
def there(folder: Path) -> None:
    root = tree(folder / "t", {"cat": 3})
    prefix = listed(folder)
    assert ours(prefix, str(root)) == 0
    before = (folder / "x.rec").read_bytes()
    assert ours("--resize", "32", prefix, str(root)) == 2
    assert (folder / "x.rec").read_bytes() == before


@row("`PREFIX`")
def prefixes(folder: Path) -> None:
    root = tree(folder / "t", {"cat": 3})
    for name in ("x", "x_1", "x_train", "xylophone"):
        listed(folder, name=name)
    assert ours(str(folder / "x"), str(root)) == 0
    assert {path.stem for path in folder.glob("*.rec")} == {"x", "x_1", "x_train"}


@row("lists without images")
def empty(folder: Path) -> None:
    root = tree(folder / "t", {"cat": 3})
    prefix = listed(folder)
    (folder / "x_1.lst").write_text("\n")
    assert ours(prefix, str(root)) == 0
    assert {path.stem for path in folder.glob("*.rec")} == {"x"}


@row("lines of a list that are no entries")
def strange_lines(folder: Path, upstream: Upstream) -> None:
    root = tree(folder / "t", {"cat": 3})
    for line in ("7\tcat/0.jpg", "seven\t0\tcat/0.jpg", "7\tzero\tcat/0.jpg"):
        prefix = listed(folder, line)
        for more in ((), ("--dry-run",)):
            assert ours(*more, prefix, str(root)) == 2
        assert not list(folder.glob("*.rec"))
    assert "met error" in upstream("--num-thread", "2", prefix, str(root))
    assert count(folder / "x.rec") == 3


@row("a byte order mark")
def byte_order_mark(folder: Path, upstream: Upstream) -> None:
    root = tree(folder / "t", {"cat": 3})
    prefix = listed(folder)
    lst = folder / "x.lst"
    lst.write_bytes(b"\xef\xbb\xbf" + lst.read_bytes())
    assert ours(prefix, str(root)) == 2
    assert not list(folder.glob("*.rec"))
    upstream("--num-thread", "2", prefix, str(root))
    assert count(folder / "x.rec") == 2


@row("ids that occur again")
def twice(folder: Path) -> None:
    root = tree(folder / "t", {"cat": 3})
    prefix = listed(folder, "1\t0\tcat/0.jpg")
    assert ours(prefix, str(root)) == 0
    assert count(folder / "x.rec") == 4


@row("names with a tab or a line end, or blanks at an end")
def names(folder: Path) -> None:
    for name in ("a\tb", " ab"):
        root = tree(folder / f"t{len(name)}{name[0]}", {name: 2})
        assert ours("--list", "--recursive", str(folder / "x"), str(root)) == 2
        assert not (folder / "x.lst").exists()


@row("links in a circle")
def circle(folder: Path) -> None:
    root = tree(folder / "t", {"cat": 3})
    (root / "cat" / "again").symlink_to(root)
    listed(folder)
    assert len((folder / "x.lst").read_text().splitlines()) == 3


@row("hidden files and folders")
def hidden(folder: Path) -> None:
    root = tree(folder / "t", {"cat": 3, ".dog": 2})
    (root / "cat" / ".x.jpg").write_bytes(jpeg(70, 70))
    listed(folder)
    assert len((folder / "x.lst").read_text().splitlines()) == 3


@row("`--pass-through`")
def pass_through(folder: Path) -> None:
    root = tree(folder / "t", {"cat": 3})
    (root / "cat" / "text.jpg").write_text("hello")
    prefix = listed(folder)
    assert ours("--pass-through", "--max-bad", "50", prefix, str(root)) == 0
    assert len(images(folder / "x.rec")) == 3
    assert b"hello" not in images(folder / "x.rec")


def table() -> list[str]:
    text = (ROOT / "docs" / "reference" / "im2rec-differences.md").read_text()
    return re.findall(r"^\| (.+?) \|", text, re.MULTILINE)[1:]


def test_every_row_of_the_table_has_its_test() -> None:
    assert table() == list(ROWS)


@pytest.mark.mxnet
@pytest.mark.parametrize("name", list(ROWS))
def test_what_differs_from_upstream_is_as_the_table_says(
    name: str, tmp_path: Path, upstream: Upstream
) -> None:
    check = ROWS[name]
    check(tmp_path, upstream) if "upstream" in signature(check).parameters else check(tmp_path)


@pytest.mark.mxnet
def test_blanks_around_fields_absolute_paths_and_what_is_no_file_are_as_upstreams(
    tmp_path: Path, upstream: Upstream
) -> None:
    root = tree(tmp_path / "t", {"cat": 3})
    (root / "cat" / "gone.jpg").symlink_to(root / "nothing")
    os.mkfifo(root / "cat" / "pipe.jpg")
    elsewhere = tmp_path / "elsewhere.jpg"
    elsewhere.write_bytes(jpeg(80, 80, seed=9))
    found = {}
    for name, program in (("ours", ours), ("theirs", upstream)):
        prefix = str(tmp_path / name)
        program("--list", "--recursive", prefix, str(root))
        lst = tmp_path / f"{name}.lst"
        text = lst.read_text()
        assert len(text.splitlines()) == 3
        lst.write_text(f"{text} 7 \t 1.5 \t cat/0.jpg \n8\t0\t{elsewhere}\n")
        program("--num-thread", "2", "--quality", "0", prefix, str(root))
        rec = tmp_path / f"{name}.rec"
        held = [unpack(payload, name) for _, payload in records(rec)]
        found[name] = text, [(one.index, one.labels, pixels(one.image).shape) for one in held]
    assert found["ours"] == found["theirs"]
    assert [index for index, *_ in found["ours"][1]][-2:] == [7, 8]


def test_png_edges_may_be_longer_than_a_jpegs(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.png").write_bytes(encoded(".png", np.zeros((1, 70_000, 3), np.uint8)))
    prefix = listed(tmp_path)
    assert ours("--encoding", ".png", prefix, str(tmp_path / "t")) == 0
    assert pixels(images(tmp_path / "x.rec")[0]).shape == (1, 70_000, 3)
    (tmp_path / "x.rec").unlink()
    assert ours("--quality", "0", "--encoding", ".jpg", prefix, str(tmp_path / "t")) == 2
