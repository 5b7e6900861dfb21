"""Another process draws the figures of a report."""

import os
import signal
import subprocess
import sys
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest

from plots.figures import pictures
from plots.figures.pictures import drawing
from results.errors import StoreError
from results.run import Run, load
from tests.support.paths import ROOT
from tests.support.runs.scenes import three
from tests.support.runs.stores import stored

# The modules of a report, without those of its figures.
TEXTS = "plots.report, plots.figures.pictures, plots.page.page, plots.tables.scaling"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    stored(tmp_path / "run", *three())
    return load(tmp_path / "run")


def test_the_texts_of_a_report_do_not_wait_for_matplotlib() -> None:
    code = f"import sys, {TEXTS}; print('matplotlib' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_a_killed_process_is_an_error_of_the_store(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(pictures, "draw_figures", killed)
    with drawing(run) as drawn, pytest.raises(StoreError, match="was killed"):
        drawn()


def test_a_handler_of_the_program_raises_nothing_outside_of_drawing(
    run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pictures, "draw_figures", lambda *_: signal.pause())
    first, before = os.getpid(), signal.signal(signal.SIGTERM, interrupt)
    try:
        for _ in range(30):
            with drawing(run):
                pass
    except KeyboardInterrupt:
        os._exit(1) if os.getpid() != first else pytest.fail("interrupted")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert capfd.readouterr().err == ""


def test_a_report_that_does_not_wait_ends_the_process(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pictures, "draw_figures", lambda *_: signal.pause())
    with drawing(run):
        assert len(active_children()) == 1
    assert active_children() == []
