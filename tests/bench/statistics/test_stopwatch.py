"""The wait of a process's threads for a CPU is counted by window."""

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.statistics import stopwatch
from bench.statistics.stopwatch import RunDelay, WindowDelays

pytestmark = pytest.mark.pythons


def thread(folder: Path, name: str, waited: int) -> None:
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "schedstat").write_text(f"5000 {waited} 7\n")


def test_the_waits_of_all_threads_are_added_up(tmp_path: Path) -> None:
    thread(tmp_path, "1", 10**9)
    thread(tmp_path, "2", 2 * 10**9)
    delay = RunDelay(tmp_path)
    assert delay.read() == 0.0
    thread(tmp_path, "1", 3 * 10**9)
    thread(tmp_path, "2", 3 * 10**9)
    assert delay.read() == 3.0


def test_what_a_thread_waited_before_it_ended_still_counts(tmp_path: Path) -> None:
    thread(tmp_path, "1", 0)
    thread(tmp_path, "2", 0)
    delay = RunDelay(tmp_path)
    delay.read()
    thread(tmp_path, "2", 10**9)
    assert delay.read() == 1.0
    (tmp_path / "2" / "schedstat").unlink()
    (tmp_path / "2").rmdir()
    assert delay.read() == 1.0
    thread(tmp_path, "3", 2 * 10**9)
    assert delay.read() == 3.0


def test_a_kernel_that_does_not_count_gives_no_delay(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    assert RunDelay(tmp_path).read() is None
    assert RunDelay(tmp_path / "none").read() is None


def test_no_file_stays_open_without_its_reader() -> None:
    delay = RunDelay()
    delay.read()
    held = len(list(Path("/proc/self/fd").iterdir()))
    del delay
    assert len(list(Path("/proc/self/fd").iterdir())) < held


def test_this_process_has_a_delay() -> None:
    delay, end = RunDelay(), threading.Event()
    first = delay.read()
    late = threading.Thread(target=end.wait)
    late.start()
    second = delay.read()
    end.set()
    late.join()
    third = delay.read()
    assert first == 0.0
    assert second is not None
    assert third is not None
    assert third >= second >= 0.0


class Scripted(RunDelay):
    """A delay that grows by a second with every reading."""

    def read(self) -> float | None:
        self._nanoseconds += 10**9
        return self._nanoseconds / 1e9


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Return times that a test sets; each reading takes 1 ms of CPU time."""
    times = {"now": 0.0, "cpu": 0.0}

    def cpu() -> float:
        times["cpu"] += 1e-3
        return times["cpu"]

    clocks = SimpleNamespace(perf_counter=lambda: times["now"], thread_time=cpu)
    monkeypatch.setattr(stopwatch, "time", clocks)
    return times


def test_windows_that_are_too_short_for_a_reading_share_one(clock: dict[str, float]) -> None:
    delays, found = WindowDelays(Scripted()), []
    for seconds in (2.0, 2.0, 2.0, 9.0, 2.0):
        delays.start()
        clock["now"] += seconds
        found.append(delays.end())
    assert [one["run_delay"] for one in found] == [0.0, 0.0, 1.0, 1.0, 0.0]


def test_a_probe_between_two_windows_does_not_count(clock: dict[str, float]) -> None:
    delays = WindowDelays(Scripted())
    delays.start()
    clock["now"] += 2.0
    assert delays.end() == {"run_delay": 0.0}
    delays.restart()
    delays.start()
    clock["now"] += 6.0
    assert delays.end() == {"run_delay": 1.0}


def test_a_window_without_a_counted_delay_has_none(tmp_path: Path) -> None:
    delays = WindowDelays(RunDelay(tmp_path / "none"))
    delays.start()
    assert delays.end() == {}
