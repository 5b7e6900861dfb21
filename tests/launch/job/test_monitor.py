"""The end of a job and the processes that its verdict names, on a test's clock."""

import pytest

from bench.events import Event
from bench.notes import Note, NoteKind
from launch.hosts import pretend
from launch.job.monitor import Deadlines, JobMonitor, Verdict
from launch.job.plan import plan
from launch.transport.client import Message
from results.record import Cause
from tests.support.programs.jobs import trial

WORKERS = ("worker-0", "worker-1")


def watching(windows: int = 0) -> JobMonitor:
    """Return the monitor of a job that began at 0, with two workers on a host each."""
    return JobMonitor(plan(trial(devices_per_host=1), pretend(2, 1), 1), Deadlines(), 0.0, windows)


def say(monitor: JobMonitor, name: str, kind: str, now: float, **values: object) -> None:
    rank = WORKERS.index(name) if name in WORKERS else -1
    monitor.take_event(name, Event(kind=kind, rank=rank, values=values), now)


def met(monitor: JobMonitor, now: float) -> JobMonitor:
    for name in monitor.states:
        say(monitor, name, "reached", now)
    for name in WORKERS:
        say(monitor, name, "ready", now)
    return monitor


def at(monitor: JobMonitor, now: float) -> Verdict | None:
    """Return the verdict while all agents are alive."""
    for host in ("host01", "host02"):
        monitor.take_sign_of_life(host, now)
    return monitor.ended(now) or monitor.late(now)


def test_a_host_whose_agent_falls_silent_is_lost() -> None:
    monitor = watching()
    monitor.take_sign_of_life("host01", 20.0)
    assert monitor.late(6.0) is None
    verdict = monitor.late(20.0)
    assert (verdict.status, verdict.silent) == ("lost", ("host02",))
    assert verdict.message.startswith("host02: no heartbeat from the agent for 6 s: ")


def test_the_job_waits_120_s_for_the_rendezvous_and_names_who_is_missing() -> None:
    monitor = watching()
    for name in ("scheduler-0", "server-0", "server-1", "worker-0"):
        say(monitor, name, "reached", 100.0)
    assert at(monitor, 120.0) is None
    assert at(monitor, 120.1) == Verdict(
        status="timeout",
        message="rendezvous not complete after 120 s; missing: worker 1 on host02",
        suspects=("worker-1",),
        cause=Cause.RENDEZVOUS,
    )


def test_one_that_was_stopped_after_it_had_reached_the_scheduler_is_missing() -> None:
    monitor = watching()
    for name in monitor.states:
        say(monitor, name, "reached", 1.0)
    monitor.take_stopped("host02", ["server-1"])
    assert "missing: server 1 on host02, suspended (SIGSTOP)" in at(monitor, 121.0).message
    monitor.take_stopped("host02", [])
    assert at(monitor, 121.0).message.endswith(
        "all reached the scheduler, but worker 0 on host01, worker 1 on host02 got no rank; "
        "see their logs"
    )


def test_the_first_window_may_take_600_s() -> None:
    monitor = met(watching(), 10.0)
    assert at(monitor, 610.0) is None
    assert at(monitor, 610.1).status == "hung"
    assert "no progress for 600 s before the first window" in at(monitor, 610.1).message


@pytest.mark.parametrize(("slowest", "allowed"), [(0.5, 60), (6.0, 60), (7.0, 70), (30.0, 300)])
def test_later_windows_may_take_60_s_or_ten_times_the_slowest(slowest: float, allowed: int) -> None:
    monitor = met(watching(), 10.0)
    say(monitor, "worker-0", "window", 50.0, seconds=slowest)
    say(monitor, "worker-1", "window", 50.0, seconds=0.1)
    assert at(monitor, 50.0 + allowed) is None
    late = at(monitor, 50.1 + allowed)
    assert (late.status, f"no progress for {allowed} s" in late.message) == ("hung", True)


def test_the_rank_that_came_least_far_is_named() -> None:
    monitor = met(watching(), 10.0)
    for name in ("worker-0", "worker-1", "worker-0"):
        say(monitor, name, "window", 20.0, seconds=1.0)
    assert at(monitor, 100.0).message == (
        "no progress for 60 s after 1 window: worker 1 (rank 1) on host02"
    )


def test_a_stopped_server_is_named_and_not_the_workers_that_wait_for_it() -> None:
    monitor = met(watching(), 10.0)
    monitor.take_stopped("host01", ["server-0"])
    monitor.take_stopped("host02", [])
    say(monitor, "worker-0", "window", 20.0, seconds=1.0)
    assert at(monitor, 100.0).message == (
        "no progress for 60 s before the first window: server 0 on host01, suspended (SIGSTOP)"
    )


def test_a_long_validation_that_goes_on_is_no_silence() -> None:
    monitor = met(watching(), 10.0)
    for name in WORKERS:
        say(monitor, name, "window", 20.0, seconds=1.0)
    for now in range(25, 300, 5):
        say(monitor, "worker-0", "validating", float(now), total=now)
        assert at(monitor, float(now)) is None


def test_a_job_whose_scheduler_has_ended_names_the_workers_that_are_not_done() -> None:
    """Such as workers of a host that floods its line, so that its reports are late."""
    monitor = met(watching(), 1.0)
    say(monitor, WORKERS[0], "done", 2.0)
    monitor.take_exit("scheduler-0", 0, None, 2.0)
    for now in range(2, 8):
        assert at(monitor, float(now)) is None
    assert at(monitor, 8.0).message == (
        "scheduler 0 on host01 exited before worker 1 (rank 1) on host02 was done"
    )


def test_servers_and_workers_of_several_hosts_may_end_in_any_order() -> None:
    monitor = watching()
    for name in ("scheduler-0", "server-0", "server-1"):
        monitor.take_exit(name, 0, None, 1.0)
    for now in range(2, 7):
        assert at(monitor, float(now)) is None
    message = at(monitor, 7.0).message
    assert all(f"worker {index} on " in message for index in range(len(WORKERS)))
    met(monitor, 2.0)
    for name in WORKERS:
        say(monitor, name, "done", 2.0)
        monitor.take_exit(name, 0, None, 2.0)
    assert at(monitor, 2.0) == Verdict(status="ok")


def test_an_agent_that_is_silent_at_the_end_is_lost_and_no_scheduler_is_blamed() -> None:
    monitor = met(watching(), 1.0)
    for name in WORKERS:
        say(monitor, name, "window", 2.0, seconds=1.0)
    say(monitor, "worker-0", "done", 3.0)
    monitor.take_sign_of_life(
        "host02", 3.0
    )  # it is suspended before it can report that its worker is done
    for name in ("scheduler-0", "server-0"):
        monitor.take_exit(name, 0, None, 3.5)
    for tenth in range(35, 91):
        monitor.take_sign_of_life("host01", tenth / 10)
        assert (monitor.ended(tenth / 10) or monitor.late(tenth / 10)) is None
    monitor.take_sign_of_life("host01", 9.1)
    verdict = monitor.ended(9.1) or monitor.late(9.1)
    assert (verdict.status, verdict.silent) == ("lost", ("host02",))


def test_an_agent_that_speaks_again_at_the_end_has_time_to_tell_that_its_worker_is_done() -> None:
    monitor = met(watching(), 1.0)
    for name in WORKERS:
        say(monitor, name, "window", 2.0, seconds=1.0)
    say(monitor, "worker-0", "done", 3.0)
    monitor.take_sign_of_life("host02", 3.0)
    monitor.take_exit("scheduler-0", 0, None, 3.2)
    monitor.take_sign_of_life("host01", 8.5)
    monitor.take_sign_of_life("host02", 8.6)  # its heartbeat comes before its worker's message
    assert monitor.ended(8.6) is None
    say(monitor, "worker-1", "done", 8.7)
    for name in (*WORKERS, "server-0", "server-1"):
        monitor.take_exit(name, 0, None, 8.8)
    assert monitor.ended(8.9) == Verdict(status="ok")


def test_workers_that_have_ended_are_not_blamed_for_one_that_hangs() -> None:
    monitor = met(watching(), 10.0)
    say(monitor, "worker-0", "done", 20.0)
    monitor.take_exit("worker-0", 0, None, 20.0)
    assert at(monitor, 30.0) is None
    assert at(monitor, 621.0).message.endswith(
        "before the first window: worker 1 (rank 1) on host02"
    )


@pytest.mark.parametrize(
    ("oom", "end"),
    [
        (None, "was killed by SIGKILL (out of memory?)"),
        (True, "SIGKILL: out of memory (the kernel's OOM killer acted on host02)"),
        (False, "SIGKILL, not by the kernel's OOM killer but by a person, a batch system or a m"),
    ],
)
def test_a_sigkill_is_told_apart_by_the_kernels_count(oom: bool | None, end: str) -> None:
    monitor = met(watching(), 10.0)
    values = {"id": "worker-1", "signal": 9} | ({} if oom is None else {"oom": oom})
    host = monitor.states["worker-1"].process.host
    list(monitor.take(Message(host=host, say="exit", values=values, at=11.0)))
    assert end in at(monitor, 11.5).message


def test_a_worker_that_is_done_too_soon_fails_the_job() -> None:
    monitor = met(watching(windows=3), 10.0)
    say(monitor, "worker-1", "window", 11.0, seconds=1.0)
    say(monitor, "worker-1", "done", 11.0)
    assert at(monitor, 11.5) == Verdict(
        status="failed",
        message="worker 1 (rank 1) on host02 failed: done after 1 of 3 windows",
        suspects=("worker-1",),
        cause=Cause.EXITED,
    )


def test_what_a_process_says_becomes_one_line_of_text() -> None:
    monitor = met(watching(), 10.0)
    say(monitor, "worker-0", "failed", 10.0, message="no \udcff\nfile\x1b[31m")
    monitor.take_exit("worker-0", None, 40, 10.0)
    assert at(monitor, 10.0).message == (
        "worker 0 (rank 0) on host01 was killed by signal 40: no ? file [31m"
    )


def test_the_message_has_the_last_three_lines_of_the_log() -> None:
    monitor = met(watching(), 10.0)
    for line in ("one", "two  ", "", "three", "x" * 500):
        monitor.take_output("server-0", line)
    monitor.take_exit("server-0", 3, None, 11.0)
    said = at(monitor, 11.0).message
    assert (
        said == f"server 0 on host01 exited with code 3; last log lines: two | three | {'x' * 200}"
    )


def test_who_fails_first_is_named_and_not_who_that_brings_down() -> None:
    monitor = met(watching(windows=8), 1.0)
    say(monitor, "worker-1", "done", 2.0, ended="windows")
    monitor.take_exit("server-0", None, 6, 2.0)
    assert at(monitor, 2.1) is None  # its last words are waited for
    monitor.take_exit("worker-1", 0, None, 2.2)
    verdict = at(monitor, 2.6)
    assert verdict is not None
    assert verdict.message == "worker 1 (rank 1) on host02 failed: done after 0 of 8 windows"


def test_a_killed_process_is_named_and_not_who_reports_its_loss_first() -> None:
    monitor = met(watching(), 10.0)
    say(monitor, "worker-1", "failed", 10.9, message="Connection reset by peer")
    assert at(monitor, 10.9) is None
    monitor.take_exit("worker-0", None, 9, 10.9)
    assert at(monitor, 11.0).message.startswith("worker 0 (rank 0) on host01 was killed by SIGKILL")
    again = met(watching(), 10.0)
    say(again, "worker-1", "failed", 10.9, message="no memory")
    again.take_exit("worker-0", 1, None, 11.0)
    again.take_exit("worker-1", 1, None, 11.1)
    assert at(again, 11.2).suspects == ("worker-1",)


def placed(monitor: JobMonitor, now: float, *names: str) -> JobMonitor:
    for name in monitor.states:
        say(monitor, name, "reached", now)
    for name in names:
        say(monitor, name, "registered", now)
    return monitor


def test_a_worker_without_a_place_in_a_complete_job_ends_it_and_the_cause_is_named() -> None:
    monitor = placed(watching(), 5.0, "server-0", "server-1", "worker-0")
    assert at(monitor, 25.0) is None
    verdict = at(monitor, 25.1)
    assert verdict is not None
    assert verdict.status == "failed"
    assert verdict.message.startswith("worker 1 on host02: expected a rank from the ")
    assert "another program joined the job" in verdict.message


def test_a_place_given_late_or_not_told_is_a_place() -> None:
    monitor = placed(watching(), 5.0, "server-0", "server-1", "worker-0")
    say(monitor, "worker-1", "ready", 24.0)
    assert at(monitor, 25.1) is None
    assert at(placed(watching(), 5.0), 25.1) is None


def test_the_cause_is_named_at_the_deadline_of_the_rendezvous_too() -> None:
    monitor = placed(watching(), 119.0, "server-0", "server-1", "worker-0")
    assert at(monitor, 120.0) is None
    verdict = at(monitor, 120.1)
    assert verdict is not None
    assert "another program joined the job" in verdict.message


def test_a_stopped_process_is_named_before_a_foreign_one_is_suspected() -> None:
    monitor = placed(watching(), 5.0, "server-0", "server-1", "worker-0")
    monitor.take_stopped("host02", ["worker-1"])
    assert at(monitor, 100.0) is None
    verdict = at(monitor, 120.1)
    assert verdict is not None
    assert verdict.message.endswith("missing: worker 1 on host02, suspended (SIGSTOP)")


def test_a_server_without_a_place_is_named_when_a_foreign_one_has_served_the_job() -> None:
    monitor = met(placed(watching(), 5.0, "server-1", *WORKERS), 5.0)
    for name in WORKERS:
        say(monitor, name, "done", 6.0)
    for name in ("scheduler-0", "server-1", *WORKERS):
        monitor.take_exit(name, 0, None, 7.0)
    assert at(monitor, 22.0) is None
    verdict = at(monitor, 22.1)
    assert verdict is not None
    assert verdict.status == "failed"
    assert verdict.message.startswith("server 0 on host01: expected a rank ")


def test_refused_commands_of_all_servers_are_one_note() -> None:
    monitor = watching()
    assert not monitor.refusals
    for name, count in (
        ("server-0", 1),
        ("server-0", 3),
        ("server-1", 2),
        ("worker-0", "x"),
        ("worker-1", 10**5000),
    ):
        say(monitor, name, "refused", 1.0, count=count)
    assert monitor.refusals == (Note(NoteKind.REFUSED_COMMANDS, {"count": 5}),)


@pytest.mark.parametrize(
    ("name", "cause"),
    [("scheduler-0", " (a malformed message from another program?)"), ("worker-0", "")],
)
def test_the_likely_cause_of_an_abort_is_a_message(name: str, cause: str) -> None:
    monitor = watching()
    monitor.take_exit(name, None, 6, 1.0)
    verdict = at(monitor, 1.0)
    assert verdict is not None
    assert verdict.message.endswith(f" was killed by SIGABRT{cause}")


def test_a_foreign_server_is_named_and_not_the_worker_that_fails_by_it() -> None:
    monitor = placed(watching(), 5.0, "server-1", *WORKERS)
    monitor.take_exit("worker-0", 1, None, 10.1)
    verdict = at(monitor, 10.1)
    assert verdict is not None
    assert verdict.message.startswith("server 0 on host01: expected a rank ")
