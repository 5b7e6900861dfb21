"""Each deadline is longer than the ones that it waits for."""

from launch.remote import limits
from launch.remote.limits import (
    AGENT_CLOSE_SECONDS,
    AGENT_PAUSE_SECONDS,
    AGENT_SILENCE_SECONDS,
    BANNER_SECONDS,
    BEAT_SECONDS,
    CONNECT_SECONDS,
    CONTENTS_ANSWER_SECONDS,
    CONTENTS_SECONDS,
    CONTROLLER_SILENCE_SECONDS,
    END_BY_KILL_SECONDS,
    END_BY_SIGNAL_SECONDS,
    END_SECONDS,
    FACTS_SECONDS,
    GRACE_SECONDS,
    IMPORT_SECONDS,
    PROBE_SECONDS,
    REACH_SECONDS,
    SCRIPT_SILENCE_SECONDS,
    STOP_SECONDS,
    STREAM_SILENCE_SECONDS,
    VERIFY_ANSWER_SECONDS,
    VERIFY_SECONDS,
)


def test_an_agent_gives_up_before_its_controller_does() -> None:
    assert BEAT_SECONDS < AGENT_PAUSE_SECONDS < CONTROLLER_SILENCE_SECONDS
    assert CONTROLLER_SILENCE_SECONDS < AGENT_SILENCE_SECONDS < SCRIPT_SILENCE_SECONDS


def test_several_beats_may_be_late_before_a_stream_ends() -> None:
    assert STREAM_SILENCE_SECONDS >= 10 * BEAT_SECONDS


def test_who_waits_for_an_end_waits_for_two_graces() -> None:
    assert 2 * GRACE_SECONDS < STOP_SECONDS < AGENT_CLOSE_SECONDS
    assert 2 * GRACE_SECONDS < END_BY_SIGNAL_SECONDS
    assert END_BY_SIGNAL_SECONDS + END_BY_KILL_SECONDS < END_SECONDS


def test_a_controller_waits_longer_than_the_program_that_it_asks() -> None:
    assert IMPORT_SECONDS < FACTS_SECONDS
    assert CONTENTS_SECONDS < CONTENTS_ANSWER_SECONDS
    assert VERIFY_SECONDS < VERIFY_ANSWER_SECONDS
    assert 2 * REACH_SECONDS < PROBE_SECONDS


def test_a_silent_ssh_server_is_reported_before_its_connection_fails() -> None:
    assert BANNER_SECONDS < CONNECT_SECONDS


def test_every_limit_is_a_positive_number_of_seconds() -> None:
    named = {name: value for name, value in vars(limits).items() if name.isupper()}
    assert all(name.endswith("_SECONDS") and value > 0 for name, value in named.items())
