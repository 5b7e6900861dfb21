"""Lists of images: their lines, their number, their labels."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from im2rec_tools.declarations import LIST
from im2rec_tools.errors import DataError
from im2rec_tools.formats import lists
from im2rec_tools.formats.lists import Entry
from im2rec_tools.formats.tree import walk
from tests.support.data.trees import lines, tree

pytestmark = pytest.mark.pythons

paths = (
    st.text(st.characters(codec="utf-8", exclude_characters="\0\t\n\r"), min_size=1)
    .map(str.strip)
    .filter(bool)
)


@given(
    st.builds(
        Entry,
        index=st.integers(0, 2**64 - 1),
        labels=st.lists(st.integers(0, 21840).map(float), min_size=1, max_size=3).map(tuple),
        path=paths,
    )
)
def test_a_list_entry_survives_its_line(entry: Entry) -> None:
    assert lists.parse(lists.emit(entry), "here") == entry


@pytest.mark.parametrize(
    "line",
    [
        "1",
        "1\t2",
        "x\t2\ta.jpg",
        "1\tx\ta.jpg",
        "\u00a0",
        "-1\t0\ta.jpg",
        "1\t1e39\ta.jpg",
        "1\tnan\ta.jpg",
        f"{2**64}\t0\ta.jpg",
        "1\t0\ta\0.jpg",
    ],
)
def test_a_line_that_is_no_entry_is_refused_with_its_place(tmp_path: Path, line: str) -> None:
    (tmp_path / "x.lst").write_text(f"0\t0.000000\ta.jpg\n{line}\n")
    bad = "('?index|a number as label|a whole number as index)"
    with pytest.raises(DataError, match=rf"x\.lst:2: expected {bad}"):
        list(lists.read(tmp_path / "x.lst"))


@given(st.integers(1, 200), st.integers(1, 16))
def test_chunks_are_whole_and_even(count: int, parts: int) -> None:
    found = lists.even_runs(count, parts)
    assert [at for run in found for at in run] == list(range(count))
    assert len(found) == parts
    assert max(map(len, found)) - min(map(len, found)) <= 1


def test_a_tree_may_be_as_deep_as_the_file_system_allows(tmp_path: Path) -> None:
    # mkdir, because Python's own ways of making and removing folders call themselves.
    folder = tmp_path / "t" / ("a/" * 1500)
    subprocess.run(["mkdir", "-p", folder], check=True)
    (folder / "0.jpg").write_bytes(b"x")
    found = [(len(below), images) for below, images in walk(tmp_path / "t")]
    subprocess.run(["rm", "-r", tmp_path / "t"], check=True)
    assert found == [(2999, ["0.jpg"])]


def test_lists_come_by_number_or_by_size_with_their_labels(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"cat": 6, "dog": 5})
    given = {"prefix": str(tmp_path / "a"), "root": str(root), "chunks": "3"}
    lines(LIST.planned(given))
    assert [lists.check(tmp_path / f"a_{n}.lst").entries for n in range(3)] == [3, 4, 4]
    lines(
        LIST.planned(
            {
                **given,
                "prefix": f"{tmp_path}/b",
                "chunks": "1",
                "background": True,
                "images_per_shard": "4",
            }
        )
    )
    assert [path.name for path in lists.find_lists(tmp_path / "b")] == [
        "b_0.lst",
        "b_1.lst",
        "b_2.lst",
    ]
    assert (tmp_path / "b_labels.txt").read_text() == "0\tbackground\n1\tcat\n2\tdog\n"
    labels = {entry.labels for entry in lists.read(tmp_path / "b_0.lst")}
    assert labels <= {(1.0,), (2.0,)}
    with pytest.raises(DataError, match="expected one of them, got both"):
        LIST.planned({**given, "images_per_shard": "4"})


def test_lists_that_were_interrupted_are_made_again(tmp_path: Path) -> None:
    given = {"prefix": f"{tmp_path}/a", "root": str(tree(tmp_path / "t", {"cat": 6}))}
    lines(LIST.planned({**given, "chunks": "3"}))
    whole = (tmp_path / "a_0.lst").read_bytes()
    (tmp_path / "a_0.lst").unlink()
    assert lists.find_lists(tmp_path / "a") == []
    with pytest.raises(DataError, match=r"a_1\.lst: made with other settings"):
        lines(LIST.planned(given))
    lines(LIST.planned({**given, "chunks": "3"}))
    assert (tmp_path / "a_0.lst").read_bytes() == whole
    (tmp_path / "a.lst").write_bytes(whole)
    with pytest.raises(DataError, match=r"a\.lst: expected one set of lists, got .*a_0\.lst"):
        lists.find_lists(tmp_path / "a")


def test_a_list_that_is_replaced_by_another_is_noted(tmp_path: Path) -> None:
    root = tree(tmp_path / "t", {"n01": 3, "n02": 3})
    given = {"prefix": str(tmp_path / "a"), "root": str(root)}
    assert not any("note" in line for line in lines(LIST.planned(given)))
    assert not any("note" in line for line in lines(LIST.planned(given)))
    said = lines(LIST.planned({**given, "no_shuffle": True}))
    assert f"note: {tmp_path / 'a.lst'} replaced an older list" in said


def test_a_line_that_is_no_utf8_is_named_with_its_number(tmp_path: Path) -> None:
    lst, labels = tmp_path / "a.lst", tmp_path / "labels.txt"
    lst.write_bytes(b"0\t1\ta.jpg\n1\t1\tb\xff.jpg\n")
    with pytest.raises(DataError, match=r"a\.lst:2: expected UTF-8, got byte 0xff at column 6 "):
        list(lists.read(lst))
    labels.write_bytes(b"0\tn01\n1\tn02\n2\t\xe9\n")
    with pytest.raises(DataError, match=r"labels\.txt:3: expected UTF-8, got byte 0xe9 at col"):
        lists.read_labels(labels)
