"""Workers' events reach the controller unchanged; other lines are no events."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.engines.event_decoder import decoded
from bench.events import Event, emit, say
from launch.remote.processes import split_events

pytestmark = pytest.mark.pythons

counts = st.integers(1, 10**15)
seconds = st.floats(1e-9, 1e9)
TYPED = {"event", "rank", "notes", "cached_bytes", "data_bytes", "arrays", "bytes_each_way"}
TYPED |= {"own_seconds"}
facts = st.dictionaries(
    st.text(max_size=20).filter(lambda name: name not in TYPED),
    st.one_of(st.integers(), st.floats(allow_nan=False), st.text(), st.none()),
)
FIELDS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "reached": st.just({}),
    "ready": facts.map(lambda some: {**some, "num_workers": 2, "worker_batch": 4}),
    "window": st.fixed_dictionaries(
        {"seconds": seconds, "end": st.floats(0, 1e12), "images": counts},
        optional={
            "index": counts,
            "loss": st.floats(allow_nan=False),
            "own_seconds": seconds,
            "input_wait": st.floats(0, 1e9),
            "run_delay": st.floats(0, 1e9),
        },
    ),
    "registered": st.just({}),
    "measured": st.just({}),
    "refused": st.fixed_dictionaries({"count": counts}),
    "validating": st.fixed_dictionaries({}, optional={"total": counts}),
    "epoch": st.fixed_dictionaries({"correct": counts, "total": counts}),
    "done": facts.map(lambda some: {**some, "ended": "windows", "weight_hash": "0"}),
    "failed": st.fixed_dictionaries({"message": st.text()}),
}
events = st.one_of(
    [
        st.builds(Event, kind=st.just(kind), rank=st.integers(-1, 10_000), values=fields)
        for kind, fields in FIELDS.items()
    ]
)


@given(events)
def test_an_event_survives_its_line(event: Event) -> None:
    assert "\n" not in emit(event)
    assert decoded(emit(event)) == event


@given(events, st.integers(0, 10_000))
def test_a_torn_line_is_nobodys_event(event: Event, cut: int) -> None:
    line = emit(event)
    assert decoded(line[: min(cut, len(line) - 1)]) is None


FOREIGN = (
    *("", "Speed: 20.1 samples/sec", "[1, 2]", '{"event": "gossip", "rank": 0}', "3"),
    *('{"event": [], "rank": 0}', "[" * 100_000, '{"event": ' + "[" * 100_000),
)


@pytest.mark.parametrize("line", FOREIGN, ids=range(len(FOREIGN)))
def test_foreign_lines_are_nobodys_event(line: str) -> None:
    assert decoded(line) is None


WINDOW = {"event": "window", "rank": 0, "seconds": 0.5, "end": 1.0, "images": 4}
ODD_SECONDS: tuple[Any, ...] = (0, -1, 1e-300, 1e300, "1", None, [], True)
WRONG: tuple[dict[str, Any], ...] = (
    {"event": "window", "rank": 0},
    *(WINDOW | {"seconds": value} for value in ODD_SECONDS),
    *(WINDOW | {"seconds": value} for value in (float("nan"), float("inf"))),
    *(WINDOW | {"end": value} for value in (-1, 1e300, float("nan"))),
    *(WINDOW | {"images": value} for value in (0, -4, 10**30, 1.5, "4")),
    *(WINDOW | {"own_seconds": value} for value in (0, float("nan"), "x")),
    *(
        WINDOW | {name: value}
        for name in ("input_wait", "run_delay")
        for value in (-1e-9, 2e9, float("nan"), float("inf"), "1", None)
    ),
    *(WINDOW | {"rank": value} for value in (-2, 1e9, "0", None, 10**400)),
    {"event": "ready", "rank": 0},
    {"event": "ready", "rank": 0, "num_workers": "2", "worker_batch": 4},
    {"event": "ready", "rank": 0, "num_workers": 2, "worker_batch": 4, "cached_bytes": 1},
    {"event": "ready", "rank": 0, "num_workers": 2, "worker_batch": 4, "bytes_each_way": -1},
    {"event": "ready", "rank": 0, "num_workers": 2, "worker_batch": 4, "arrays": 10**30},
    {"event": "epoch", "rank": 0, "correct": 1},
    {"event": "epoch", "rank": 0, "correct": 1, "total": -1},
    {"event": "done", "rank": 0, "notes": [1]},
    {"event": "done", "rank": 0, "notes": [{"kind": 1, "figures": {}, "scope": {}}]},
    {"event": "done", "rank": 0, "ended": []},
    *(
        {"event": "done", "rank": 0, "own_seconds": value}
        for value in (1.0, [0], [float("nan")], [1e300], [1.0] * 1001)
    ),
    {"event": "done", "rank": 0, "x": [[[[[[[[[[1]]]]]]]]]]},
    {"event": "failed", "rank": 0},
)


@pytest.mark.parametrize("values", WRONG, ids=range(len(WRONG)))
def test_an_event_with_absurd_figures_is_a_value_error(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="note|" + values["event"]):
        decoded(json.dumps(values))


def test_a_loss_that_is_not_a_number_is_kept_for_training_may_diverge() -> None:
    event = decoded(json.dumps(WINDOW | {"loss": float("nan")}))
    assert event.values["loss"] != event.values["loss"]


def test_an_event_on_stdout_follows_a_mark(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MXSCALE_EVENTS", "1")
    say("registered")
    (line,) = capfd.readouterr().out.splitlines()
    found = split_events(["text", line])
    assert found["output"] == ["text"]
    assert [decoded(event).kind for event in found["event"]] == ["registered"]


def test_without_a_master_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MXSCALE_EVENTS", raising=False)
    say("done", rank=0)
    assert capfd.readouterr() == ("", "")
