"""`results.trace` from the command line, as docs/how-to/profile.md shows it."""

import json
from pathlib import Path
from typing import Any

import pytest
from invoke.context import Context

import tasks.results
from tests.support.paths import ROOT
from tests.support.programs.commands import refusal
from tests.support.runs.traces import event, profile

TASK: Any = tasks.results.results_trace  # Invoke types a task as the function it wraps
PAGE = (ROOT / "docs" / "how-to" / "profile.md").read_text(encoding="utf-8")


@pytest.fixture
def pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the pattern of the profiles of two ranks on the page's hosts."""
    monkeypatch.chdir(ROOT)
    for rank, (count, begin, end) in enumerate([(1068, 0, 15500), (1066, 200, 15600)]):
        times = [begin] * (count - 1) + [end]
        content = profile(
            *(event("B", ts=10**15 + time) for time in times), host=f"node0{rank + 1}"
        )
        (tmp_path / f"rank{rank}_w.json").write_bytes(content)
    return f"{tmp_path}/rank*_w.json"


def test_the_output_on_the_page_is_that_of_the_task(
    pattern: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "merged.json"
    TASK.body(Context(), pattern, to=str(target))
    assert capsys.readouterr().out.replace(str(target), "merged.json") in PAGE
    assert len(json.loads(target.read_text())["traceEvents"]) == 1068 + 1066 + 2 * 3


def test_ranks_begin_at_zero_if_they_are_aligned_by_their_start(
    pattern: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    TASK.body(Context(), pattern, to=str(tmp_path / "merged.json"), align="start")
    assert "rank 1 on node02: 1066 events from 0.0 to 15.4 ms" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"align": "ntp"}, "--align: expected clock or start, got 'ntp'"),
        ({"to": "TREE/rank1_w.json"}, "--to: expected a new file, got one of the profiles"),
        ({"profiles": "TREE/none*.json"}, "none*.json: expected a file, got none"),
        ({"to": "/proc/none/merged.json"}, "/proc/none"),
    ],
)
def test_a_wrong_option_of_a_trace_is_one_line(
    pattern: str, tmp_path: Path, options: dict[str, str], expected: str
) -> None:
    given = {name: text.replace("TREE", str(tmp_path)) for name, text in options.items()}
    code, line = refusal(TASK, **{"profiles": pattern, "to": str(tmp_path / "m.json"), **given})
    assert code == 2
    assert expected in line
    assert "\n" not in line
    assert json.loads((tmp_path / "rank1_w.json").read_text())["otherData"] == {"host": "node02"}
