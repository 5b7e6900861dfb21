"""The agent starts, watches and ends real processes, whatever its controller does."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bench.engines.mxnet import MXNET
from launch.remote.processes import MOST_FILES
from launch.remote.telemetry import oom_kills
from launch.transport.line import LOADER, sources
from tests.support.hosts.agents import Talk, printed

pytestmark = pytest.mark.program


@pytest.fixture
def talk() -> Iterator[Talk]:
    one = Talk()
    yield one
    one.channel.close()


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def gone(pids: Sequence[int], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(alive(pid) for pid in pids)


def test_output_events_and_exit_code_arrive_in_this_order(talk: Talk) -> None:
    talk.start(
        "worker-0",
        "import os, sys; print('to out'); print('to err', file=sys.stderr);"
        "os.write(int(os.environ['MXSCALE_EVENTS']), b'an event\\n'); sys.exit(3)",
    )
    said = [(say, values) for say, values in talk.until("exit") if say not in {"hello", "beat"}]
    assert said[0][0] == "started"
    assert sorted(line for _, values in said for line in values.get("lines", [])) == [
        "an event",
        "to err",
        "to out",
    ]
    assert said[-1] == ("exit", {"id": "worker-0", "code": 3})


def test_a_server_sends_its_events_on_stdout_and_needs_one_open_file(talk: Talk) -> None:
    def files() -> int:
        return len(list(Path(f"/proc/{agent}/fd").iterdir()))

    agent = talk.until("hello")[-1][1]["pid"]
    before = files()
    talk.start(
        "server-0",
        "import os; os.write(1, b'half a line\\x1f{}\\nof text\\n'); input()",
    )
    talk.until("started")
    during = files()
    said = talk.until("exit")
    assert during - before <= 1
    assert [values["lines"] for say, values in said if say == "event"] == [["{}"]]
    assert printed(said)[:2] == ["half a line", "of text"]


def test_an_agent_raises_its_limit_on_open_files_and_not_that_of_processes() -> None:
    """A job of 256 workers and as many servers on one host has 769 streams."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        one = Talk()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    agent = one.until("hello")[-1][1]["pid"]
    raised = resource.prlimit(agent, resource.RLIMIT_NOFILE)
    one.start("w", "import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))")
    lines = printed(one.until("exit"))
    one.channel.close()
    assert raised == (min(hard, MOST_FILES), hard)
    assert lines == [str((256, hard))]


def test_a_process_killed_by_a_signal_says_which(talk: Talk) -> None:
    talk.start("worker-0", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    oom = {} if oom_kills() is None else {"oom": False}
    assert talk.until("exit")[-1][1] == {"id": "worker-0", "signal": signal.SIGKILL, **oom}


def test_a_program_that_is_not_there_is_refused(talk: Talk) -> None:
    talk.channel.send(
        {"do": "start", "id": "x", "argv": ["/no/such"], "env": {}, "cwd": "/", "cores": []}
    )
    assert "No such file" in talk.until("refused")[-1][1]["why"]


def test_a_process_gets_its_environment_and_none_of_another_job(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DMLC_PS_ROOT_PORT", "1234")
    monkeypatch.setenv("OTHER_PORT", "5678")
    monkeypatch.setenv("PORT", "8080")
    one = Talk()
    one.start(
        "w",
        "import os; get = os.environ.get;"
        "print(get('DMLC_ROLE'), get('DMLC_PS_ROOT_PORT'), get('OTHER_PORT'), get('PORT'))",
        env={"DMLC_ROLE": "two words $HOME 'quoted'"},
        foreign=list(MXNET.foreign),
    )
    lines = printed(one.until("exit"))
    one.channel.close()
    assert lines == ["two words $HOME 'quoted' None 5678 None"]


def test_a_process_keeps_to_its_cores(talk: Talk) -> None:
    core = min(os.sched_getaffinity(0))
    talk.start("w", "import os; print(os.sched_getaffinity(0))", cores=[core])
    lines = printed(talk.until("exit"))
    assert lines == [f"{{{core}}}"]


ESCAPING = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
# in one write: an unbuffered print writes the end of the line apart, between the other's
os.write(1, b"%d\\n" % os.getpid())
time.sleep(600)
"""


def escaped(talk: Talk) -> list[int]:
    """Return the pids of a process that ignores TERM and of its detached grandchild."""
    talk.start("w", ESCAPING)
    pids: list[int] = []
    while len(pids) < 2:
        _, values = talk.until("output")[-1]
        pids += map(int, values["lines"])
    assert all(alive(pid) for pid in pids)
    return pids


def test_closing_the_channel_ends_everything_even_what_escaped(talk: Talk) -> None:
    pids = escaped(talk)
    talk.channel.close()
    assert gone(pids, 0.5)


def test_stop_ends_everything_and_the_agent_stays(talk: Talk) -> None:
    talk.start("w", "import time; print('up'); time.sleep(600)")
    pids = [values["pid"] for say, values in talk.until("output") if say == "started"]
    talk.channel.send({"do": "stop"})
    talk.until("stopped")
    assert gone(pids, 0.5)
    talk.start("again", "print('here')")
    assert talk.until("exit")[-1][1] == {"id": "again", "code": 0}


def test_a_killed_agent_takes_its_processes_with_it() -> None:
    talk = Talk()
    agent = talk.until("hello")[-1][1]["pid"]
    talk.start("w", "import time; print('up'); time.sleep(600)")
    pid = next(values["pid"] for say, values in talk.until("output") if say == "started")
    os.kill(agent, signal.SIGKILL)
    talk.until("lost", 2.0)
    assert gone([pid], 2.0)
    talk.channel.close()


def test_a_silent_master_is_not_waited_for() -> None:
    """A suspended controller, or one behind a cut link, keeps the channel open."""
    impatient = sources("agent").replace(b"R_SILENCE_SECONDS = 5.0", b"R_SILENCE_SECONDS = 1.0")
    start = {
        "do": "start",
        "id": "w",
        "argv": [sys.executable, "-c", "import time; time.sleep(600)"],
        "env": {},
        "cwd": "/",
        "cores": [],
    }
    with subprocess.Popen(
        [sys.executable, "-u", "-c", LOADER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as agent:
        agent.stdin.write(impatient + json.dumps(start).encode() + b"\n")
        agent.stdin.flush()
        began = time.monotonic()
        lines = [json.loads(line) for line in agent.stdout if line.strip()]
        agent.wait(10)
    pid = next(line["pid"] for line in lines if line["say"] == "started")
    assert gone([pid], 0.5)
    assert 0.9 < time.monotonic() - began < 5.0


def test_a_process_that_never_pauses_starves_nobody(talk: Talk) -> None:
    talk.start("loud", "while True: print('x' * 1000)")
    talk.until("output")
    began = time.monotonic()
    talk.channel.send({"do": "stop"})
    talk.until("stopped")
    assert time.monotonic() - began < 5.0
    talk.start("quiet", "print('here')")
    assert talk.until("exit")[-1][1] == {"id": "quiet", "code": 0}


def test_a_line_without_end_is_cut_after_a_mebibyte(talk: Talk) -> None:
    talk.start("w", "print('x' * 5_000_000)")
    lengths = [len(line) for line in printed(talk.until("exit"))]
    assert sum(lengths) == 5_000_000
    assert max(lengths) < 3_000_000


def test_a_process_that_is_held_is_told_with_each_beat(talk: Talk) -> None:
    talk.start("w", "import time; print('up'); time.sleep(600)")
    pid = next(values["pid"] for say, values in talk.until("output") if say == "started")
    assert talk.until("beat")[-1][1]["stopped"] == []
    os.kill(pid, signal.SIGSTOP)
    talk.until("beat")
    assert talk.until("beat")[-1][1]["stopped"] == ["w"]


@pytest.mark.parametrize("family", [True, False])
def test_the_cpu_time_of_descendants_counts_if_they_compute_for_it(
    talk: Talk, family: bool
) -> None:
    spend = "import time, signal\nwhile time.process_time() < 0.6: pass\n"
    spend += "print('spent', flush=True)\nsignal.pause()"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {spend!r}])"
    talk.start("w", code, family=family)
    talk.until("output")
    talk.until("beat")
    assert (talk.until("beat")[-1][1]["cpu"]["w"] >= 0.6) == family
