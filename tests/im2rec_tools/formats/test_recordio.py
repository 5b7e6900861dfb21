"""RecordIO: records are read back as MXNet reads them, and damage is named."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from im2rec_tools.errors import DataError
from im2rec_tools.formats.recordio import (
    ImageRecord,
    count_records,
    frame,
    pack,
    read_index,
    records,
    unpack,
)
from tests.support.data.shards import payloads_of_a_file, write

pytestmark = pytest.mark.pythons


@given(contents=payloads_of_a_file)
def test_records_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes]
) -> None:
    path = write(tmp_path_factory.mktemp("rec") / "x.rec", contents)
    found = list(records(path))
    assert [payload for _, payload in found] == contents
    assert [offset for offset, _ in found] == [at for _, at in read_index(path.with_suffix(".idx"))]


@given(
    st.builds(
        ImageRecord,
        index=st.integers(0, 2**64 - 1),
        labels=st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=4).map(tuple),
        image=st.binary(),
    )
)
def test_an_image_record_survives_packing(record: ImageRecord) -> None:
    assert unpack(pack(record), "here") == record


def three(tmp_path: Path) -> Path:
    return write(tmp_path / "x.rec", [b"a" * 10, b"b" * 20, b"c" * 30])


def test_records_are_counted_with_and_without_an_index(tmp_path: Path) -> None:
    path = three(tmp_path)
    assert count_records(path) == 3
    path.with_suffix(".idx").unlink()
    assert count_records(path) == 3


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("cut", [1, 5, 40, 41, 70])
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, indexed: bool, cut: int) -> None:
    path = three(tmp_path)
    if not indexed:
        path.with_suffix(".idx").unlink()
        # Only the index shows a cut between two records.
        cut = cut + 1 if cut == 40 else cut
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(DataError, match=r"x\.(rec|idx): .*(truncated|damaged|belong)"):
        count_records(path)


def test_a_file_cut_between_records_is_found_by_its_index(tmp_path: Path) -> None:
    path = three(tmp_path)
    last = read_index(path.with_suffix(".idx"))[-1][1]
    path.write_bytes(path.read_bytes()[:last])
    with pytest.raises(DataError, match=r"belongs to another file, or x\.rec is truncated"):
        count_records(path)


def test_other_damage_is_refused_with_its_place(tmp_path: Path) -> None:
    path = three(tmp_path)
    good = path.read_bytes()
    path.write_bytes(good[:20] + b"junk" + good[24:])
    with pytest.raises(DataError, match=r"damaged at byte 20 .* expected the start of a record"):
        list(records(path))
    path.write_bytes(good + b"\0" * 8)
    with pytest.raises(DataError, match="expected the start of a record, got 00000000"):
        list(records(path))


def test_missing_and_empty_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        count_records(tmp_path / "none.rec")
    (tmp_path / "empty.rec").touch()
    with pytest.raises(DataError, match="the file is empty"):
        count_records(tmp_path / "empty.rec")


def test_a_damaged_index_is_refused_with_its_line(tmp_path: Path) -> None:
    path = three(tmp_path)
    path.with_suffix(".idx").write_text("0\t0\nrubbish\n")
    with pytest.raises(DataError, match=r"x\.idx:2: expected 'key<TAB>offset', got 'rubbish'"):
        count_records(path)


def test_a_payload_that_no_record_can_hold_is_refused() -> None:
    with pytest.raises(DataError, match=r"record: expected at most .* bytes, got 536870912"):
        frame(bytes(1 << 29))
