"""The lines on failed repeats that end a sweep."""

from dataclasses import replace

from plots.failed_repeats import FailedRepeat, failure_lines
from tests.support.runs.records import record

END = "Finished repeats are kept: the same command runs only the rest"


def failed(status: str, *suspects: str, repeat: int = 0) -> FailedRepeat:
    one = replace(record([[1.0]], repeat=repeat), status=status, message="the cause", ranks=())
    return FailedRepeat(record=one, suspects=suspects)


def test_a_failure_has_its_cause_and_the_command_that_prints_its_log() -> None:
    one = failed("hung", "worker-2")
    name = one.record.identity.name
    command = f"fab hosts.logs --run mine --point '{name}' --process worker-2"
    assert list(failure_lines([one], "mine", 1)) == [
        f"{name}: hung (stalled): the cause",
        f"  Read its log: {command}",
        END,
    ]


def test_several_suspects_and_repeats_get_the_logs_of_that_repeat() -> None:
    one = failed("failed", "worker-0", "worker-1", repeat=1)
    name = one.record.identity.name
    lines = list(failure_lines([one], "my run", 2))
    assert lines[0] == f"{name}, repeat 2: failed: the cause"
    assert lines[1] == (
        f"  Read the logs: fab hosts.logs --run 'my run' --point '{name}' --repeat 2"
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
