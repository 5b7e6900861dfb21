"""Files reach a host's folder whole or not at all; only missing ones are sent."""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launch.push import PushProgress, contents, in_tree
from launch.remote.errors import LaunchError
from tests.support.hosts.pushes import pushed, tree_of, written
from tests.support.programs.jobs import agents

NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1)
SURROGATES = st.binary(min_size=1, max_size=255).map(os.fsdecode)
NAME = st.one_of(NAMES, SURROGATES).filter(
    lambda name: (
        not {"/", "\0"} & set(name)
        and name not in {".", "..", ".mxscale-pushed"}
        and len(os.fsencode(name)) <= 255
    )
)
FILES = st.dictionaries(NAME, st.tuples(st.binary(max_size=2000), st.booleans()), max_size=8)


def there(folder: Path) -> dict[str, bytes]:
    found = folder.rglob("*")
    return {str(p.relative_to(folder)): p.read_bytes() for p in found if p.is_file()}


@given(FILES)
@settings(deadline=None, max_examples=20)
def test_any_names_and_contents_arrive_as_they_are(files: dict[str, tuple[bytes, bool]]) -> None:
    with tempfile.TemporaryDirectory() as text:
        root = Path(text)
        (root / "src").mkdir()
        for name, (data, runs) in files.items():
            written(root / "src" / name, data, 0o755 if runs else 0o640)
        pieces = tree_of(root / "src")
        assert pushed(pieces, root / "dst").files == len(files)
        found = tree_of(root / "dst" / "x")
        described = {(p.name, p.path.read_bytes(), p.mtime_ns, p.mode) for p in found}
        wanted = {(p.name, p.path.read_bytes(), p.mtime_ns, p.mode) for p in pieces}
        assert described - wanted == {one for one in described if one[0] == ".mxscale-pushed"}
        assert wanted <= described
        assert pushed(pieces, root / "dst") == PushProgress(
            host="node01", step="copying", files=0, done=0, total=0
        )
        assert agents() == []


def test_links_within_the_tree_stay_links_and_others_are_copied(tmp_path: Path) -> None:
    outside = written(tmp_path / "big.rec", b"outside")
    written(tmp_path / "src" / "sub" / "a", b"inside")
    links = {"near": "sub/a", "sub/far": "../../big.rec", "whole": str(outside)}
    for name, target in links.items():
        (tmp_path / "src" / name).symlink_to(target)
    for _ in range(2):
        pushed(tree_of(tmp_path / "src"), tmp_path)
        assert (tmp_path / "x" / "near").readlink() == Path("sub/a")
        for name in ("sub/far", "whole"):
            assert not (tmp_path / "x" / name).is_symlink()
            assert (tmp_path / "x" / name).read_bytes() == b"outside"


def test_only_what_differs_is_copied(tmp_path: Path) -> None:
    for name in ("same", "touched", "other", "longer"):
        written(tmp_path / "src" / name, b"1234")
    written(tmp_path / "x" / "same", b"1234")  # somebody else put it there
    assert pushed(tree_of(tmp_path / "src"), tmp_path).total == 12
    os.utime(tmp_path / "src" / "touched", ns=(5, 5))
    written(tmp_path / "src" / "other", b"4321")
    written(tmp_path / "src" / "longer", b"123456", 0o700)
    (tmp_path / "src" / "same").chmod(0o700)
    last = pushed(tree_of(tmp_path / "src"), tmp_path)
    assert (last.files, last.total) == (2, 10)
    for path in (tmp_path / "src").iterdir():
        assert contents(tmp_path / "x" / path.name, "") == replace(
            contents(path, ""), path=tmp_path / "x" / path.name
        )


def test_an_up_to_date_file_is_not_read_on_either_side(tmp_path: Path) -> None:
    source = written(tmp_path / "src" / "a", b"1234")
    pushed(tree_of(tmp_path / "src"), tmp_path)
    before = contents(source, "").mtime_ns
    written(tmp_path / "x" / "a", b"damaged"[:4])
    for path in (source, tmp_path / "x" / "a"):
        os.utime(path, ns=(before, before))
    assert pushed(tree_of(tmp_path / "src"), tmp_path).files == 0
    (tmp_path / "x" / ".mxscale-pushed").unlink()  # without it contents are compared
    assert pushed(tree_of(tmp_path / "src"), tmp_path).files == 1


def test_exact_removes_what_a_push_put_there_and_nothing_else(tmp_path: Path) -> None:
    for name in ("a", "gone/deep/b", "mine"):
        written(tmp_path / "src" / name, name.encode())
    written(tmp_path / "x" / "strange", b"strange")
    pushed(tree_of(tmp_path / "src"), tmp_path)
    first = [in_tree(tmp_path / "src", "a")]
    written(tmp_path / "x" / "mine", b"changed there since")
    written(tmp_path / "x" / ".0123456789abcdef.part", b"of a push that was killed")
    pushed(first, tmp_path)
    assert len(there(tmp_path / "x")) == 6
    pushed(first, tmp_path, exact=True)
    (tmp_path / "x" / ".mxscale-pushed").unlink()
    assert there(tmp_path / "x") == {
        "a": b"a",
        "strange": b"strange",
        "mine": b"changed there since",
    }
    assert not (tmp_path / "x" / "gone").exists()


@pytest.mark.parametrize("name", ["../a", "/a", "a/../../b", "a//b", ".", "", ".mxscale-pushed"])
def test_a_name_that_is_not_below_the_folder_is_refused_there(tmp_path: Path, name: str) -> None:
    piece = replace(contents(written(tmp_path / "src", b"1"), "src"), name=name)
    with pytest.raises(LaunchError, match=r"node01: .*below the folder; nothing was copied"):
        pushed([piece], tmp_path)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("link", ["..", "../../a", "/etc/passwd"])
def test_a_link_that_leads_out_is_refused_there(tmp_path: Path, link: str) -> None:
    piece = replace(contents(written(tmp_path / "src", b"1"), "src"), name="a", link=link)
    with pytest.raises(LaunchError, match="node01: 'a': leads out of the folder"):
        pushed([piece], tmp_path)
