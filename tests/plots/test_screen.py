"""The live display: a table that fits, or a line per change of state."""

import io
import re
import time
from typing import Any

import pytest
from rich.console import Console

from bench.events import Event
from bench.trial import Trial
from plots.screen import SweepScreen, job_time_left
from plots.workers import worker_table
from results.progress import JobProgress, WorkerProgress
from results.record import Identity, RepeatStart
from tests.support.programs.jobs import trial
from tests.support.runs.records import record

TWO = """\
tiny dist_sync x2: 201 images/s
rank  host    window         images/s   CPU  last message
0     node01  2/4                 101  98 %  rank 0 window 1
1     node02  1/4 warm-up        99.8   3 %  [bold] a line longer than there is…
"""


def worker(index: int, **fields: Any) -> WorkerProgress:
    usual: dict[str, Any] = {"host": f"node{index + 1:02}.example.org", "rank": index}
    usual |= {"state": "training", "windows": 2, "images_per_second": 100.0, "cpu": 0.98}
    usual |= {"gpu": None, "last_message": f"rank {index} window 1"}
    return WorkerProgress(worker=index, **usual | fields)


def glimpse(*workers: WorkerProgress, **fields: Any) -> JobProgress:
    usual: dict[str, Any] = {"seconds": 7.0, "met_seconds": 3.21, "quiet_seconds": 0.0, "idle": ""}
    return JobProgress(workers=workers, **usual | fields)


def text_of(what: Trial, seen: JobProgress, width: int = 80, rows: int = 20) -> str:
    file = io.StringIO()
    Console(file=file, width=width).print(worker_table(what, seen, rows))
    text = file.getvalue()
    assert all(len(line) <= width for line in text.splitlines())
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


def test_each_rank_has_a_row_that_fits_the_terminal() -> None:
    long = "[bold] a line longer than there is room for in 80 columns"
    slow = worker(1, windows=1, images_per_second=99.8, cpu=0.03, last_message=long)
    seen = glimpse(slow, worker(0, images_per_second=101.2))
    assert text_of(trial(), seen) == TWO


def test_before_they_have_met_workers_are_named_by_their_index() -> None:
    state = {"windows": 0, "images_per_second": None, "cpu": None, "last_message": ""}
    one = worker(0, rank=None, state="waiting", **state)
    text = text_of(trial(), glimpse(one, worker(1, **state), met_seconds=None))
    assert "tiny dist_sync x2: 1 of 2 workers ready after 7 s" in text
    assert "worker 0  node01  waiting" in text
    assert "1         node02  0/4 warm-up" in text


def test_gpus_have_a_column_where_they_are_known() -> None:
    text = text_of(trial(), glimpse(worker(0, gpu=0.87), worker(1)))
    assert "GPU" in text
    assert "98 %  87 %  rank 0" in text


@pytest.mark.parametrize("width", [80, 120])
def test_of_many_ranks_the_slowest_the_stuck_and_a_sum_are_shown(width: int) -> None:
    many = [worker(n, windows=3, images_per_second=100.0 + n) for n in range(256)]
    many[200] = worker(200, windows=1, state="stalled")
    many[201] = worker(201, windows=2, state="suspended")
    lines = text_of(trial(), glimpse(*many, quiet_seconds=12.4), width).splitlines()
    assert lines[0] == "tiny dist_sync x2: 57639 images/s, no progress for 12 s"
    assert [line.split()[0] for line in lines[2:-1]] == ["0", "1", "2", "3", "4", "5", "200", "201"]
    assert "1/4 stalled" in lines[-3]
    said = "248 more workers: window 3 of 4, 106 to 355 images/s each, CPU 98 %"
    assert lines[-1] == said


def test_a_low_terminal_shows_fewer_rows() -> None:
    many = [worker(n, state="stalled") for n in range(64)]
    assert len(text_of(trial(), glimpse(*many)).splitlines()) == 2 + 19 + 1
    assert len(text_of(trial(), glimpse(*many), rows=4).splitlines()) == 2 + 3 + 1
    assert len(text_of(trial(), glimpse(*many), rows=-3).splitlines()) == 2 + 1 + 1


def test_hosts_keep_their_domains_where_these_tell_them_apart() -> None:
    twins = [worker(0, host="a.east"), worker(1, host="a.west")]
    assert "a.west" in text_of(trial(), glimpse(*twins))
    numbers = [worker(0, host="192.0.2.1"), worker(1, host="192.0.2.2")]
    assert "192.0.2.2" in text_of(trial(), glimpse(*numbers))


def started(what: Trial, **fields: Any) -> RepeatStart:
    name = Identity(
        name=what.name, key=what.key, repeat=0, code_hash="", data_manifest="", hosts=()
    )
    return RepeatStart(trial=what, identity=name, number=2, total=3, **fields)


def follow(screen: SweepScreen, workers: int) -> None:
    """Return a job of many workers without faults, one of which idles."""
    begins = [worker(n, windows=0, rank=None, state="starting") for n in range(workers)]
    with screen:
        screen.show(started(trial(devices=workers, devices_per_host=16)))
        for met in (None, None, 3.21, 3.21):
            screen.show(glimpse(*begins, met_seconds=met))
        for count in range(1, 40):
            at_work = [worker(n, windows=count) for n in range(workers)]
            idle = "worker 3 on node02 idles while others work" if count > 20 else ""
            screen.show(glimpse(*at_work, idle=idle))
        screen.show(record([[1, 2.0, 2.0]]))


def test_without_a_terminal_a_job_of_256_ranks_says_a_handful_of_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    follow(SweepScreen(Console(stderr=True, force_terminal=False)), 256)
    assert capsys.readouterr().err.splitlines() == [
        "tiny dist_sync x256: started, 256 workers on 16 hosts (2 of 3)",
        "tiny dist_sync x256: rendezvous done in 3.2 s",
        "tiny dist_sync x256: first window after 7 s (about 10 s left)",
        "tiny dist_sync x256: worker 3 on node02 idles while others work",
        "tiny dist_sync x256: 4.00 images/s",
    ]


def drawn(workers: int) -> str:
    """Return the output to a terminal during a job, without colors and movements."""
    file = io.StringIO()
    console = Console(file=file, width=80, height=24, force_terminal=True, _environ={})
    follow(SweepScreen(console), workers)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue())


def test_on_a_terminal_the_table_goes_when_the_job_is_over_and_lines_stay() -> None:
    before, result, after = drawn(64).rpartition("4.00 images/s")
    assert before.count("worker 3 on node02 idles while others work") == 1
    assert "last message" in before
    assert result
    assert "last message" not in after
    assert "2/3" in after


def test_the_screen_is_drawn_four_times_a_second_at_most() -> None:
    began = time.monotonic()
    tables = drawn(64).count("last message")
    # one more above each of the two printed lines
    assert tables <= 2 + 1 + 4 * (time.monotonic() - began)


def lines_of(updates: list[Any], capsys: pytest.CaptureFixture[str]) -> list[str]:
    with SweepScreen(Console(stderr=True, force_terminal=False)) as screen:
        for update in updates:
            screen.show(update)
    return capsys.readouterr().err.splitlines()


def test_a_sweep_estimates_the_time_left_once_a_repeat_has_finished(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, second = lines_of([started(trial()), started(trial(), seconds_left=185.0)], capsys)
    assert first.endswith("(2 of 3)")
    assert second.endswith("(2 of 3, about 3 min left)")


def test_the_bar_counts_the_estimate_down_while_a_repeat_runs() -> None:
    file = io.StringIO()
    console = Console(file=file, width=120, height=24, force_terminal=True, _environ={})
    with SweepScreen(console) as screen:
        screen.show(started(trial(), seconds_left=300.0))
        screen.show(glimpse(worker(0), worker(1), seconds=125.0))
    assert "about 3 min left" in file.getvalue()


@pytest.mark.parametrize(("precision", "word"), [(0.0, "about"), (0.02, "up to")])
def test_a_repeat_estimates_its_time_left_by_its_windows(precision: float, word: str) -> None:
    what = trial(precision=precision, windows=9)
    seen = glimpse(worker(0, windows=4), worker(1, windows=2), seconds=13.0, met_seconds=3.0)
    assert job_time_left(what, seen) == f"{word} 40 s left"
    assert job_time_left(what, glimpse(worker(0), met_seconds=None)) == ""
    assert job_time_left(what, glimpse(worker(0, windows=0))) == ""
    assert job_time_left(what, glimpse(worker(0, windows=10))) == ""


def test_a_repeat_takes_no_longer_than_its_budget() -> None:
    what = trial(precision=0.0, windows=10_000, budget_seconds=8.0)
    seen = glimpse(worker(0, windows=10), seconds=13.0, met_seconds=3.0)
    assert job_time_left(what, seen) == "up to 8 s left"
    assert job_time_left(what.replace(budget_seconds=0.0), seen).startswith("about 2 h")


def test_training_by_epochs_estimates_its_time_left_at_the_end_of_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    what = trial(windows=0, data_train="a", mode="real", num_epochs=10, devices=1, kvstore="local")
    epoch = Event(kind="epoch", rank=0, values={"epoch": 0, "correct": 9, "total": 10})
    seen = glimpse(worker(0, windows=7), seconds=63.0, met_seconds=3.0)
    lines = lines_of([started(what), seen, epoch], capsys)
    assert lines[-1].endswith("epoch 0, validation accuracy 0.900 (about 9 min left)")
    later = glimpse(worker(0, windows=9), seconds=123.0, met_seconds=3.0)
    assert job_time_left(what, later, (1, 63.0)) == "about 8 min left"
