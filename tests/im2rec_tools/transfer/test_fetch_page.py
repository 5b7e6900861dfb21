"""The commands of docs/how-to/fetch-data.md do what the page describes."""

import re
import shlex
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from im2rec_tools import cli
from im2rec_tools.declarations import COMMANDS
from tests.support.data.file_server import Site, served
from tests.support.data.trees import lines, tree
from tests.support.paths import ROOT

PAGE = (ROOT / "docs/how-to/fetch-data.md").read_text(encoding="utf-8")
PAGE_COMMANDS = re.findall(r"^\.venv/bin/fab data\.(.*?)(?:   #.*)?$", PAGE, re.MULTILINE)


@pytest.fixture
def site() -> Iterator[Site]:
    shards = {f"shards/train_{n}.{end}": b"1" for n in range(8) for end in ("rec", "idx")}
    with served(Site(files={**shards, "a.tar": b"a", "b.tar": b"b"})) as running:
        yield running


def run(text: str, site: Site, folder: Path) -> str:
    """Run a command of the page with this server, and a folder as the object store."""
    text = text.replace("https://example.org", site.url).replace("s3://bucket", f"file://{folder}")
    name, *words = shlex.split(text)
    command = COMMANDS[name]
    given = vars(cli.parser(command).parse_args(words))
    return lines(command.planned(given))[-1]


def test_the_commands_of_the_page_run_in_its_order(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tree(Path("data/photos"), {f"n{number}": 2 for number in range(8)})
    sums = [f"{sha256(site.files[name]).hexdigest()}  {name}\n" for name in ("a.tar", "b.tar")]
    Path("sums.txt").write_text("".join(sums))
    Path("mine_rec").mkdir()
    Path("mine_rec/train_0.rec").write_bytes(b"1")
    printed = [run(one, site, tmp_path) for one in PAGE_COMMANDS]
    assert [re.sub(r"\d[\d.]* k?B|\d+ bytes", "SIZE", one) for one in printed] == [
        "16 files, SIZE in data/mine_rec/train: 16 fetched, 0 with checksums",
        "1 files, SIZE in data/mine_rec: 1 fetched, 0 with checksums",
        "2 files, SIZE in data/archives: 2 fetched, 2 with checksums",
        "16 images of 8 classes in data/partitions: SIZE, 8 tars written",
        f"8 files, SIZE at file://{tmp_path}/partitions/: 8 uploaded",
        "2 files, SIZE in data/tars: 2 fetched, 2 with checksums",
        "4 files, 2 classes unpacked to data/mine, none rejected",
    ]


def test_no_other_command_is_on_the_page() -> None:
    assert PAGE.count("\n.venv/bin/fab ") == len(PAGE_COMMANDS) == 7
