"""What a worker started by hand prints about its progress."""

import pytest

from bench.events import STREAM_VARIABLE
from bench.training.options import parse
from bench.training.progress import ProgressLines, training_progress


class Clock:
    """A clock that a test advances."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def lines(progress: ProgressLines, clock: Clock, windows: int, seconds: float) -> list[str]:
    """The lines of windows that take so many seconds each."""
    found = []
    for done in range(1, windows + 1):
        clock.now += seconds
        found.append(progress.line(done))
    return found


def test_a_line_every_ten_seconds_has_the_time_left_without_the_first_window() -> None:
    clock = Clock()
    progress = ProgressLines(12, clock=clock)
    clock.now += 60.0
    assert progress.line(1) == ""
    found = []
    for done in range(2, 13):
        clock.now += 5.0
        found.append(progress.line(done))
    assert found == [
        "",
        "3 of 12 windows, about 45 s left",
        "",
        "5 of 12 windows, about 35 s left",
        "",
        "7 of 12 windows, about 25 s left",
        "",
        "9 of 12 windows, about 15 s left",
        "",
        "11 of 12 windows, about 5 s left",
        "",
    ]


def test_epochs_are_counted_if_training_ends_with_them() -> None:
    clock = Clock()
    progress = ProgressLines(40, per_epoch=4, may_end_early=True, clock=clock)
    assert lines(progress, clock, 9, 60.0)[-1] == "2 of 10 epochs, up to 31 min left"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--benchmark=1", "--windows=10"], "5 of 11 windows, about"),
        (["--benchmark=1", "--windows=10", "--precision=0.1"], "5 of 11 windows, up to"),
        (["--data-train=x.rec", "--num-epochs=3"], "1 of 3 epochs, about"),
        (
            ["--data-train=x.rec", "--data-val=v", "--num-epochs=3", "--stop-accuracy=0.5"],
            "1 of 3 epochs, up to",
        ),
        (["--data-train=x.rec", "--num-epochs=3", "--windows=90"], "5 of 12 windows, about"),
    ],
)
def test_the_total_is_that_of_the_options(words: list[str], line: str) -> None:
    clock = Clock()
    per_epoch = 4 if "--benchmark=1" not in words else 11
    progress = training_progress(parse(["--network=tiny", *words]), per_epoch, clock)
    found = lines(progress, clock, 5, 60.0)
    assert found[-1].startswith(f"{line} ")


def test_a_worker_of_a_job_prints_no_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    progress = ProgressLines(12, clock=clock)
    progress.show(1)
    clock.now += 20.0
    monkeypatch.setenv(STREAM_VARIABLE, "3")
    progress.show(3)
    assert capsys.readouterr().err == ""
    monkeypatch.delenv(STREAM_VARIABLE)
    progress.show(3, rank=2)
    assert capsys.readouterr().err == "rank 2: 3 of 12 windows, about 2 min left\n"
