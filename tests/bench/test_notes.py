"""Notes are data; their sentences are composed when they are printed."""

import dataclasses
import json
import math
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.notes import (
    Note,
    NoteKind,
    as_json,
    merged,
    of_json,
    sentence,
    template,
    text_note,
    texts,
)
from results.record import emit, notes_of, parse
from tests.support.runs.records import record

pytestmark = pytest.mark.pythons

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.one_of(st.integers(), st.floats(), st.text(max_size=3)), max_size=3),
)
NOTES = st.builds(
    Note,
    st.sampled_from(NoteKind),
    st.dictionaries(st.sampled_from(["of", "cores", "share", "dropped", "text", "pids"]), VALUES),
    st.dictionaries(st.sampled_from(["host", "hosts", "rank", "process"]), VALUES, max_size=2),
)


def others(cores: float, **scope: Any) -> Note:
    return Note(NoteKind.OTHER_PROGRAMS, {"cores": cores, "of": 2}, scope)


@given(st.lists(st.lists(NOTES, max_size=3), max_size=4))
def test_no_note_fails_to_be_merged_or_printed(repeats: list[list[Note]]) -> None:
    assert all(texts(merged(repeats)))


@given(NOTES)
def test_a_note_comes_back_from_json(note: Note) -> None:
    text = json.dumps(as_json(note))
    assert repr(of_json(json.loads(text))) == repr(note)
    if "NaN" not in text and "Infinity" not in text:
        assert repr(msgspec.json.decode(text, type=Note).kind) == repr(note.kind)


@pytest.mark.parametrize("kind", NoteKind)
def test_each_kind_has_a_sentence(kind: NoteKind) -> None:
    assert sentence(Note(kind))
    assert isinstance(kind.headline, str)


@pytest.mark.parametrize("kind", NoteKind)
def test_a_sentence_is_one_clause_because_reports_join_several(kind: NoteKind) -> None:
    assert re.search(r";|\.( |$)", template(kind)) is None


@pytest.mark.parametrize("bad", [None, [], {}, {"kind": 3, "figures": {}, "scope": {}}])
def test_what_is_no_note_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="note: expected"):
        of_json(bad)


def test_a_kind_of_a_later_version_is_kept_as_text() -> None:
    note = of_json({"kind": "not-known-yet", "figures": {"text": "so it is"}, "scope": {}})
    assert texts([note]) == ["so it is"]


def test_equal_notes_of_several_repeats_are_one_with_all_their_figures() -> None:
    (note,) = merged([[others(1.0, host="a")], [], [others(1.26, host="a")]])
    assert note.figures == {"cores": [1.0, 1.26], "of": 2}
    assert texts([note]) == [
        "a: other programs used 1.0 to 1.3 of 2 cores during the measurement (in 2 of 3 repeats)"
    ]
    (everywhere,) = merged([[others(1.0)], [others(1.0)]])
    assert everywhere == others(1.0)


def test_notes_of_other_hosts_or_with_other_words_stay_apart() -> None:
    assert len(merged([[others(1.0, host="a"), others(1.0, host="b")]])) == 2
    assert len(merged([text_note("one"), text_note("other"), text_note("")])) == 2


def test_of_many_hosts_or_ranks_with_one_note_the_first_are_listed() -> None:
    notes = [Note(NoteKind.SLOW_RANK, {"excess": 0.2}, {"rank": n, "host": "h"}) for n in range(5)]
    found = texts(notes)
    assert found[0] == "rank 0 on h: computes 20 % slower than the other ranks"
    assert found[3:] == ["more notes of kind slow-rank: 2"]


def test_figures_that_are_no_number_are_printed_all_the_same() -> None:
    odd = Note(NoteKind.WINDOWS_DROPPED, {"dropped": math.inf, "of": math.nan, "change": None})
    assert "inf of nan windows" in sentence(odd)


def test_records_store_kinds_and_figures() -> None:
    one = dataclasses.replace(record([[1.0, 1.0]]), notes=(others(1.0, host="a"),))
    line = json.loads(emit(one))
    assert line["notes"] == [
        {
            "kind": "other-programs",
            "figures": {"cores": 1.0, "of": 2},
            "scope": {"host": "a"},
        }
    ]
    read = parse(emit(one))
    assert read == one
    assert read is not None
    assert notes_of(read) == one.notes


def test_a_record_that_has_only_a_message_loads_and_shows_its_text() -> None:
    old = json.loads(emit(record([[1.0, 1.0]]))) | {"schema": 2, "message": "noisy; hot"}
    del old["notes"]
    read = parse(json.dumps(old))
    assert read is not None
    assert texts(notes_of(read)) == ["noisy; hot"]


def test_a_kind_of_a_later_version_is_named() -> None:
    note = of_json({"kind": "martian", "figures": {}, "scope": {}})
    assert "martian" in sentence(note)
