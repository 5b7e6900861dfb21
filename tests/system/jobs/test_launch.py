"""launch.launch on this machine: variables, end of a job, no remaining processes."""

import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from launch.hosts import ROOT
from launch.job.monitor import kill_cause
from launch.launch import main
from launch.remote import limits
from launch.remote.telemetry import oom_kills
from tests.support.fuzz.hostile import ARRIVES, HOSTILE, hostile_words
from tests.support.programs.jobs import agents, left_over, pid_of, until
from tests.support.programs.launcher import launched_here as launched
from tests.support.programs.launcher import launching_here as launching
from tests.support.repeats import slow

SLEEP = ("sleep", "60")
pytestmark = pytest.mark.program


def shell(body: str) -> tuple[str, ...]:
    """Return a command for every role; `body` reads its role from $DMLC_ROLE."""
    return ("sh", "-c", f"{body}\nexec sleep 60")


def test_arguments_and_variables_arrive_byte_for_byte(tmp_path: Path) -> None:
    variables, expected = hostile_words()
    code, lines, said = launched(tmp_path, "-n", "1", *variables, "--", *ARRIVES, *HOSTILE)
    assert (code, said) == (0, "")
    arrived = {line.partition("] ")[0]: json.loads(line.partition("] ")[2]) for line in lines}
    assert {who.split()[1] for who in arrived} == {"scheduler", "server", "worker"}
    for one in arrived.values():
        assert one == expected


def test_every_process_gets_its_role_and_the_folder_that_this_was_typed_in(tmp_path: Path) -> None:
    words = ("--env", "A=all", "--env-worker", "A=w", "--env-server", "B=s", "--port", "9191")
    body = 'echo "$DMLC_ROLE $DMLC_PS_ROOT_URI $DMLC_PS_ROOT_PORT $DMLC_NODE_HOST" '
    body += '"$DMLC_NUM_WORKER $DMLC_NUM_SERVER $A$B $PWD"'
    code, lines, _ = launched(tmp_path, "-n", "2", "-s", "1", *words, "sh", "-c", body)
    name = os.uname().nodename
    same = "127.0.0.1 9191 127.0.0.1 2 1"
    assert (code, sorted(lines)) == (
        0,
        [
            f"[{name} scheduler 0] scheduler {same} all {tmp_path}",
            f"[{name} server 0] server {same} alls {tmp_path}",
            f"[{name} worker 0] worker {same} w {tmp_path}",
            f"[{name} worker 1] worker {same} w {tmp_path}",
        ],
    )


def test_the_processes_of_a_job_share_a_secret_that_no_other_job_has(tmp_path: Path) -> None:
    secrets = []
    for _ in range(2):
        code, lines, _ = launched(tmp_path, "-n", "1", "sh", "-c", "echo $MXSCALE_JOB_SECRET")
        assert (code, len(lines)) == (0, 3)
        (one,) = {line.partition("] ")[2] for line in lines}
        secrets.append(bytes.fromhex(one))
    assert [len(one) for one in secrets] == [32, 32]
    assert secrets[0] != secrets[1]


def test_lines_of_many_processes_come_whole_and_in_order(tmp_path: Path) -> None:
    code, lines, _ = launched(tmp_path, "-n", "3", "sh", "-c", "seq 5000; printf unfinished")
    assert code == 0
    said: dict[str, list[str]] = {}
    for line in lines:
        found = re.fullmatch(r"\[\S+ (\w+ \d)\] (\w+)", line)
        assert found
        said.setdefault(found[1], []).append(found[2])
    assert len(said) == 7
    assert all(one == [*map(str, range(1, 5001)), "unfinished"] for one in said.values())


UNFORCED = kill_cause(None if oom_kills() is None else False, os.uname().nodename)


@pytest.mark.parametrize(
    ("role", "act", "code", "end"),
    [
        ("worker", "exit 3", 3, "exited with code 3"),
        ("scheduler", "exit 1", 1, "exited with code 1"),
        ("worker", "kill -9 $$", 137, f"was killed by SIGKILL{UNFORCED}"),
        ("server", "kill -11 $$", 139, "was killed by SIGSEGV"),
        *slow(("server", "exit 255", 255, "exited with code 255")),
    ],
)
def test_the_first_failure_ends_the_others_and_is_the_exit_code(
    tmp_path: Path, role: str, act: str, code: int, end: str
) -> None:
    body = f"[ $DMLC_ROLE != {role} ] || {{ echo last words; date +%s.%N >when; {act}; }}"
    found, lines, said = launched(tmp_path, "-n", "1", "-s", "1", *shell(body))
    seconds = time.time() - float((tmp_path / "when").read_text())
    name = os.uname().nodename
    assert (found, said) == (code, f"error: {name}: {role} 0 {end}\n")
    assert lines == [f"[{name} {role} 0] last words"]
    assert seconds < limits.GRACE_SECONDS  # what ends at TERM is not waited for


def test_workers_that_are_done_end_servers_that_are_not_and_no_other_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(limits, "SCRIPT_ENDING_SECONDS", 1.0)
    monkeypatch.chdir(tmp_path)
    body = "mkdir first 2>/dev/null && exit 0; sleep 2; echo done; exit 0"
    began = time.monotonic()
    code = main(
        ["--launcher", "local", "-n", "2", *shell(f"[ $DMLC_ROLE != worker ] || {{ {body};}}")]
    )
    assert 3 < time.monotonic() - began < 30
    said = capfd.readouterr()
    assert (code, said.out.partition("] ")[2], said.err) == (0, "done\n", "")
    assert left_over() == []


def test_the_log_level_prints_what_started_and_ended(tmp_path: Path) -> None:
    words = ("-n", "1", "--style", "torch", "--", "true")
    code, lines, said = launched(tmp_path, "--log-level", "info", *words)
    assert (code, lines) == (0, [])
    for text in (r"^info: start worker-0 on ", r"started: id worker-0, pid ", r"exit: id worker-0"):
        assert re.search(text, said, re.MULTILINE), text
    assert launched(tmp_path, *words)[2] == ""
    code, _, said = launched(tmp_path, "--log-level", "loud", *words)
    assert (code, said.startswith("error: --log-level: expected a level, got 'loud'")) == (2, True)


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    code, _, said = launched(tmp_path, "-n", "1", "no such program")
    assert code == 127
    assert said.endswith(
        "scheduler 0 could not be started: [Errno 2] No such file or directory: 'no such program'\n"
    )


@pytest.mark.parametrize(
    "words", [(), ("-n", "x", "true"), ("-n", "1", "--launcher", "ssh", "-H/x", "y")]
)
def test_what_cannot_be_is_one_line_and_exit_code_2(tmp_path: Path, words: tuple[str, ...]) -> None:
    code, lines, said = launched(tmp_path, *words)
    assert (code, lines) == (2, [])
    assert re.fullmatch(r"error: .+\n", said)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 130),
        (signal.SIGKILL, -signal.SIGKILL),
        *slow((signal.SIGTERM, 143), (signal.SIGHUP, 129)),
    ],
)
def test_an_ended_launcher_leaves_nothing(tmp_path: Path, number: int, code: int) -> None:
    stubborn = "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM; sleep 60' & sleep 60"
    with launching(tmp_path, "-n", "2", "-s", "1", "sh", "-c", stubborn) as launcher:
        assert until(lambda: len(left_over()) == 18, 20)  # 4 of 4 processes, agent and launcher
        launcher.send_signal(number)
        assert launcher.wait(10) == code
        assert until(lambda: left_over() == [], 10 if code < 0 else 0.5)
        said = launcher.stderr.read()
    name = signal.Signals(number).name
    assert said == ("" if code < 0 else f"error: {name}: every process was ended\n")


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (signal.SIGKILL, "lost the agent (its connection closed)"),
        (signal.SIGSTOP, "no heartbeat from the agent for 2 s"),
    ],
)
def test_an_agent_that_is_killed_or_held_ends_the_job(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, why: str
) -> None:
    monkeypatch.setattr(limits, "SCRIPT_SILENCE_SECONDS", 2.0)
    monkeypatch.setattr(limits, "STOP_SECONDS", 1.0)
    monkeypatch.setattr(limits, "AGENT_CLOSE_SECONDS", 1.0)

    def disturb() -> None:
        if until(lambda: len(left_over()) == 4, 20):
            os.kill(agents()[0], number)

    thread = threading.Thread(target=disturb)
    thread.start()
    code = main(["--launcher", "local", "-n", "1", *SLEEP])
    thread.join()
    assert (code, capsys.readouterr().err) == (
        1,
        f"error: {os.uname().nodename}: {why}\n",
    )
    # A dying process's files, the channel too, are closed before its children are sent KILL.
    assert until(lambda: left_over() == [], 5)


def test_a_reader_that_has_seen_enough_ends_the_job(tmp_path: Path) -> None:
    with launching(tmp_path, "-n", "1", "yes") as launcher:
        assert launcher.stdout.readline()
        launcher.stdout.close()
        assert launcher.wait(10) == 141
        assert launcher.stderr.read() == ""
    assert left_over() == []


def test_a_secret_that_is_only_named_is_on_no_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "hush-hush")
    with launching(tmp_path, "-n", "1", "-x", "TOKEN", *SLEEP) as launcher:
        assert until(lambda: len(left_over()) == 5, 20)
        assert b"\0TOKEN=hush-hush\0" in Path(f"/proc/{pid_of('worker')}/environ").read_bytes()
        lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left_over()]
        assert not any(b"hush-hush" in line for line in lines)
        launcher.terminate()
        assert launcher.wait(10) == 143


@pytest.mark.mxnet
def test_a_job_of_mxnet_trains_in_step_and_ends(tmp_path: Path) -> None:
    script = str(ROOT / "tests" / "support" / "training" / "upstream_style.py")
    code, lines, said = launched(tmp_path, "-n", "2", "-s", "1", sys.executable, script, "a b")
    assert (code, said) == (0, "")
    heard = {
        who: [line.partition("] ")[2] for line in lines if who in line]
        for who in ("worker 0", "worker 1")
    }
    expected = [f"step {step} sum {36.0 * (step + 1)} of 2" for step in range(3)]
    assert set(map(tuple, heard.values())) == {(*expected, "host 127.0.0.1 argument a b")}
