"""The lines on failed repeats that end a sweep."""

from dataclasses import replace
from typing import Any

from plots.failed_repeats import earlier_items, failure_lines, failure_place
from plots.screen import show_sweep
from results.record import Cause, FailedProcess, Failure, Record, RepeatStart, emit, parse
from results.repeat import summarize
from tests.support.runs.records import record

END = "Finished repeats are kept. Run the same command again"


def failed(status: str, *suspects: str, repeat: int = 0, **where: Any) -> Record:
    processes = tuple(FailedProcess(process=one, host="node02", **where) for one in suspects)
    one = replace(record([[1.0]], repeat=repeat), status=status, message="the cause", ranks=())
    return replace(one, failure=Failure(cause=Cause.KILLED, processes=processes))


def test_a_failure_has_its_cause_and_the_command_that_prints_its_log() -> None:
    one = failed("hung", "worker-2")
    name = one.identity.name
    command = f"fab hosts.logs --run mine --point '{name}' --process worker-2"
    assert list(failure_lines([one], "mine", 1)) == [
        f"{name}: hung (stalled): the cause",
        f"  worker-2. Read its log: {command}",
        END,
    ]


def test_several_suspects_and_repeats_get_the_logs_of_that_repeat() -> None:
    one = failed("failed", "worker-0", "worker-1", repeat=1)
    name = one.identity.name
    lines = list(failure_lines([one], "my run", 2))
    assert lines[0] == f"{name}, repeat 2: failed: the cause"
    assert lines[1] == (
        "  worker-0, worker-1. Read the logs: "
        f"fab hosts.logs --run 'my run' --point '{name}' --repeat 2"
    )


def test_a_rendezvous_within_one_machine_needs_no_ports() -> None:
    lines = list(failure_lines([failed("timeout", "worker-1")], "mine", 1))
    assert "raise --rendezvous SECONDS" in lines[1]
    assert "ports" not in lines[1]


def test_ten_failures_are_listed_and_the_rest_counted() -> None:
    lines = list(failure_lines([failed("failed")] * 12, "mine", 1))
    assert (len(lines), lines[-1]) == (
        21,
        f"2 more failed; the report lists them below the table. {END}",
    )
    assert list(failure_lines([], "mine", 1)) == []


def test_a_failure_has_its_process_window_and_the_command_that_repeats_it() -> None:
    one = failed("failed", "worker-1", pid=4242, window=12, windows=40)
    _, second, end = failure_lines([one], "mine", 1, "fab bench.sweep mine")
    assert second.startswith("  worker-1 (PID 4242) in window 12 of 40. Read its log: ")
    assert end == "Finished repeats are kept. Run the failed ones again: fab bench.sweep mine"


def test_a_missed_target_is_not_to_be_measured_again() -> None:
    one = replace(failed("failed"), failure=Failure(cause=Cause.TARGET_MISSED))
    *_, end = failure_lines([one], "mine", 1, "fab bench.sweep mine")
    assert end.endswith("the same settings would miss the accuracy again")
    *_, end = failure_lines([one, failed("failed")], "mine", 1, "fab bench.sweep mine")
    assert end.endswith("Run the failed ones again: fab bench.sweep mine")


def test_an_empty_log_is_not_named() -> None:
    one = failed("failed", "worker-1", pid=4242, window=3, windows=40, silent=True)
    _, second, _ = failure_lines([one], "mine", 1)
    assert second == "  worker-1 (PID 4242) in window 3 of 40 printed nothing"
    assert one == parse(emit(one))
    assert "silent" not in emit(failed("failed", "worker-1"))
    two = failed("failed", "worker-1", "worker-2", silent=True)
    assert "fab hosts.logs" in next(line for line in failure_lines([two], "m", 1) if "Read" in line)


def test_a_failure_without_a_process_or_windows_says_less() -> None:
    assert failure_place(None) == ""
    assert failure_place(Failure(cause=Cause.LOST)) == ""
    ended = FailedProcess(process="worker-0", host="h", window=3)
    assert failure_place(Failure(cause=Cause.EXITED, processes=(ended,))) == "worker-0 in window 3"
    late = replace(ended, window=12, windows=11)
    place = failure_place(Failure(cause=Cause.KILLED, processes=(late,)))
    assert place == "worker-0 after window 11 of 11"
    many = Failure(cause=Cause.RENDEZVOUS, processes=(FailedProcess(process="w", host="h"),) * 5)
    assert failure_place(many) == "w, w, w, 2 more"


def test_earlier_tries_are_listed_with_their_causes() -> None:
    lost = failed("lost", "worker-1", pid=7)
    (item,) = earlier_items([summarize(lost), summarize(record([[1.0] * 3], repeat=1))])
    name = lost.identity.name
    assert item.parts == (
        f"{name}, repeat 1,  UTC: lost (host lost): the cause; worker-1 (PID 7)",
        f"{name}, repeat 2,  UTC: no caveats",
    )
    assert earlier_items([]) == []
    assert earlier_items([summarize(lost)] * 12)[0].parts[0] == "2 older ones in records.jsonl"


def test_a_repeat_whose_last_try_succeeded_has_not_failed() -> None:
    good = record([[1.0, 1.0]])
    bad = replace(good, status="hung", message="the cause")
    start = RepeatStart(trial=good.trial, identity=good.identity, number=1, total=1)
    again = replace(start, attempt=2)
    assert show_sweep([start, bad, again, good]) == []
    assert show_sweep([start, good, again, bad]) == [bad]
