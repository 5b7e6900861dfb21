"""What workers say survives the way to the master, and nothing else is taken for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.events import KINDS, Event, emit, parse, say

values = st.dictionaries(
    st.text().filter(lambda name: name not in {"event", "rank"}),
    st.one_of(st.integers(), st.floats(allow_nan=False), st.text(), st.none()),
)
events = st.builds(
    Event, kind=st.sampled_from(sorted(KINDS)), rank=st.integers(0, 10_000), values=values
)


@given(events)
def test_an_event_survives_its_line(event: Event) -> None:
    assert "\n" not in emit(event)
    assert parse(emit(event)) == event


@given(events, st.integers(0, 10_000))
def test_a_torn_line_is_nobodys_event(event: Event, cut: int) -> None:
    line = emit(event)
    assert parse(line[: min(cut, len(line) - 1)]) is None


def test_foreign_lines_are_nobodys_event() -> None:
    for line in ("", "Speed: 20.1 samples/sec", "[1, 2]", '{"event": "gossip", "rank": 0}', "3"):
        assert parse(line) is None


def test_without_a_master_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MXSCALE_EVENTS", raising=False)
    say(Event(kind="done", rank=0))
    assert capfd.readouterr() == ("", "")
