"""Progress lines: throughput, unit and time left."""

import pytest

from im2rec_tools.bars import RemainingTime
from im2rec_tools.progress import Progress


@pytest.mark.parametrize(
    ("unit", "note"),
    [("MB", "MB, 40 MB/s, 0:20 left"), ("images", "40 images/s, 0:20 left, 0 bad")],
)
def test_a_note_has_unit_throughput_and_estimate(
    monkeypatch: pytest.MonkeyPatch, unit: str, note: str
) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    pace = RemainingTime(100)
    monkeypatch.setattr("time.monotonic", lambda: 105.0)
    assert pace.note(Progress(step="fetching", done=300, total=1100, unit=unit)) == note
