"""A host that sends false data is lost with its reason; the others continue."""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from paramiko.buffered_pipe import BufferedPipe

from bench.notes import NoteKind
from bench.sweep import Sweep
from bench.trial import Trial
from launch.hosts import Host, rehearse, this_machine
from launch.job.agents import AgentChannel, Agents
from launch.job.monitor import Deadlines, ProcessState
from launch.job.plan import Process
from launch.job.run import run_script
from launch.job.validity import judge
from launch.remote import limits
from launch.remote.agent import free_port
from launch.remote.errors import LaunchError
from launch.sweep import ClusterSetup, points, sweep
from launch.transport.client import MOST_UNREAD, Message
from launch.transport.line import FLAGS, LOADER, Line, Starter, sources, start_local
from launch.transport.ssh import limit_unread
from results.record import Record
from results.store import Store
from results.worker_log import WorkerLog
from tests.support.hosts.agents import Talk, printed
from tests.support.hosts.liar import React, line, start_with
from tests.support.programs.jobs import left_over, tiny, trial
from tests.support.repeats import slow

pytestmark = pytest.mark.program
HOSTS = rehearse(2, 1)
BEAT = {"say": "beat", "at": 1.0, "stopped": [], "cpu": {}, "gpu": {}, "machine": {}}
BOTH = trial(devices_per_host=1)
ALONE = trial(devices=1, devices_per_host=1, kvstore="local")


@pytest.fixture(autouse=True)
def short_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that sends false data does not answer when its job has to end."""
    monkeypatch.setattr(limits, "STOP_SECONDS", 1.0)


def measured(folder: Path, start: Starter, *trials: Trial) -> list[Record]:
    """Return the records of a sweep of these trials over both hosts."""
    what = Sweep(name="t", description="", repeats=1, trials=trials, text="")
    deadlines = Deadlines(rendezvous=20.0, first_window=20.0, progress=20.0, ending=10.0)
    where = ClusterSetup(hosts=HOSTS, deadlines=deadlines, start=start)
    store = Store(folder)
    with closing(store), closing(sweep(what, points(what, where), where, store)) as updates:
        return [one for one in updates if isinstance(one, Record)]


def once(*said: bytes) -> React:
    """Send this when the second worker has to start, and nothing afterwards."""
    left = list(said)

    def react(command: dict[str, Any]) -> Iterable[bytes]:
        if command.get("id") == "worker-1":
            yield from left
            left.clear()

    return react


def lies(folder: Path) -> dict[str, list[bytes]]:
    victim = str(folder / "victim")
    return {
        "a path": [line(say="output", id=victim, lines=["t"])],
        "a path of events": [line(say="event", id=f"../../../../{victim}", lines=["t"])],
        "new names": [line(say="output", id=f"file-{n}", lines=[" " * 999]) for n in range(99)],
        "another host's rank": [line(say="event", id="worker-0", lines=['{"event": "reached"}'])],
        "a list": [b'{"say": ["output"]}\n'],
        "a half heartbeat": [b'{"say": "beat"}\n'],
        "a nest": [b'{"say": "event", "id": "worker-1", "lines": ' + b"[" * 200_000 + b"]}\n"],
        "no end": [b'{"say": "output", "id": "worker-1", "lines": ["'] + [b"x" * (1 << 20)] * 20,
        "beats": [line(**BEAT)] * 500,
    }


@pytest.mark.parametrize("name", lies(Path("/")))
def test_a_host_that_breaks_the_protocol_is_lost_and_the_next_point_runs(
    tmp_path: Path, name: str
) -> None:
    victim = tmp_path / "victim.log"
    victim.write_text("precious")
    start = start_with(once(*lies(tmp_path)[name]), "host02")
    lost, good = measured(tmp_path / "run", start, BOTH, ALONE)
    assert (lost.status, good.status) == ("lost", "ok")
    assert lost.message.startswith("host02: lost the agent (broke the protocol: ")
    assert len(lost.message) < 400
    assert victim.read_text() == "precious"
    assert {path.name for path in tmp_path.iterdir()} == {"run", "victim.log"}
    logs = tmp_path / "run" / "logs" / lost.identity.key / "0"
    names = {"hosts", "recorded", "scheduler-0", "server-0", "worker-0"}
    assert {path.name.partition(".")[0] for path in logs.iterdir()} <= names
    assert left_over() == []


WINDOW = {"event": "window", "rank": 1, "seconds": 0.5, "end": 9.0, "images": 4}
READY = {"event": "ready", "rank": 1, "num_workers": 2, "worker_batch": 4}


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([WINDOW | {"seconds": -1}], "malformed event: window: "),
        *slow(
            ([WINDOW | {"seconds": 1e300}], "malformed event: window: "),
            ([WINDOW | {"images": 10**30}], "malformed event: window: "),
            ([{"event": "window", "rank": 1}], "malformed event: window: "),
        ),
        ([READY | {"worker_batch": "4"}], "malformed event: ready: "),
        ([{"event": "epoch", "rank": 1, "correct": 1}], "malformed event: epoch: "),
        ([WINDOW] * 5000, "reported more than 4 windows"),
    ],
)
def test_absurd_figures_of_a_worker_fail_its_point_and_the_next_one_runs(
    tmp_path: Path, events: list[dict[str, Any]], why: str
) -> None:
    said = line(say="event", id="worker-1", lines=[json.dumps(one) for one in events])
    failed, good = measured(tmp_path, start_with(once(said), "host02"), BOTH, ALONE)
    assert (failed.status, good.status) == ("failed", "ok")
    assert failed.message.startswith("worker 1")
    assert why in failed.message


class Flooding:
    """A line without end, sent as fast as it is read, once its process has started."""

    def __init__(self, text: bytes) -> None:
        self.text, self.read, self.closed = text, 0, False
        self.started = threading.Event()

    def write(self, data: bytes) -> None:
        # Output of a process that was not started would break the protocol.
        if b'"start"' in data and b'"worker-1"' in data:
            self.started.set()

    def lines(self, most: int) -> Iterator[bytes]:
        self.started.wait()
        while not self.closed:
            self.read += len(self.text)
            yield self.text

    def close(self, seconds: float) -> None:
        self.closed = True
        self.started.set()

    def last_words(self) -> str:
        return ""


OUTPUT = line(say="output", id="worker-1", lines=["x" * 200] * 100).rstrip()


def test_what_a_host_sends_without_end_is_not_kept_in_memory() -> None:
    flooding = Flooding(OUTPUT)
    inbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
    channel = AgentChannel(HOSTS[1], lambda *_: flooding, inbox)
    channel.send({"do": "start", "id": "worker-1"})
    time.sleep(1.0)
    lost = inbox.get() if channel.program.violation else None
    assert flooding.read < 3 * MOST_UNREAD, lost
    channel.close()
    assert not any(thread.is_alive() for thread in channel.program.threads)


def start_flooding(host: Host, modules: str) -> Line:
    """Start agents; the second host's never stops sending."""
    return Flooding(OUTPUT) if host.name == "host02" else start_local(host, modules)


def process(number: int, code: str = "import time; time.sleep(600)") -> Process:
    argv = (sys.executable, "-c", code)
    host = replace(HOSTS[number], tree="/")
    return Process(host=host, role="worker", index=number, argv=argv)


def test_an_end_is_quick_though_a_host_never_pauses() -> None:
    with closing(Agents(start_flooding)) as agents:
        agents.begin_job([HOSTS[0], HOSTS[1]])
        agents.start(process(0), "")
        agents.start(process(1), "")  # which floods
        began = time.monotonic()
        agents.end_job(lambda _: None)
        assert time.monotonic() - began < 8.0
    assert left_over() == []


def test_a_host_that_never_pauses_keeps_no_job_from_its_deadline(
    tmp_path: Path,
) -> None:
    what = Sweep(name="t", description="", repeats=1, trials=(BOTH,), text="")
    where = ClusterSetup(hosts=HOSTS, deadlines=Deadlines(rendezvous=2.0), start=start_flooding)
    store = Store(tmp_path)
    with closing(store), closing(sweep(what, points(what, where), where, store)) as updates:
        (record,) = [one for one in updates if isinstance(one, Record)]
    assert record.status == "timeout"
    logs = list(tmp_path.rglob("worker-1.log*"))
    assert sum(path.stat().st_size for path in logs) <= 17 << 20


def test_launch_ends_with_the_reason_when_a_host_speaks_for_another() -> None:
    react = once(line(say="exit", id="worker-0", code=0))
    with closing(Agents(start_with(react, "host02"))) as agents:
        ending = run_script([process(0), process(1)], agents, lambda _: None)
    assert ending.code == 1
    assert ending.message.startswith("host02: lost the agent (broke the protocol: exit: ")
    assert left_over() == []


BAD_COMMANDS = (
    *(b"no json", b"[]", b'{"do": []}', b'{"do": "gossip"}', b'{"do": "start"}', b"[" * 100_000),
    b'{"do": "start", "id": 1, "argv": [], "env": {}, "cwd": "/", "cores": []}',
    b'{"do": "port", "address": 1, "wanted": "x"}',
    b"\xff\xfe",
)


@pytest.mark.parametrize("text", BAD_COMMANDS, ids=range(len(BAD_COMMANDS)))
def test_a_bad_line_of_a_controller_ends_no_process_of_its_agent(text: bytes) -> None:
    start = {"do": "start", "id": "w", "env": {}, "cwd": "/", "cores": []}
    start["argv"] = [sys.executable, "-c", "import time; time.sleep(600)"]
    after = start | {"id": "next", "argv": [sys.executable, "-c", "print('here')"]}
    program = sources("agent")
    with subprocess.Popen(
        [sys.executable, *FLAGS, "-c", LOADER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as agent:
        lines = [json.dumps(start).encode(), text, json.dumps(after).encode(), b""]
        agent.stdin.write(program + b"\n".join(lines))
        agent.stdin.flush()
        said: list[dict[str, Any]] = []
        for answer in agent.stdout:
            if answer.startswith(b"{"):
                said.append(json.loads(answer))
                if said[-1]["say"] == "exit":
                    break
        pid = next(one["pid"] for one in said if one["say"] == "started")
        os.kill(pid, 0)
        rest, errors = agent.communicate(timeout=30)
    assert [one["say"] for one in said if one["say"] == "rejected"] == ["rejected"]
    assert said[-1] == {"say": "exit", "id": "next", "code": 0}
    assert b'"ending"' in rest
    assert b"Traceback" not in errors


@pytest.mark.parametrize("odd", [{"argv": []}, {"cores": [10**6]}, {"env": {"a=b": "c"}}])
def test_a_process_that_cannot_be_started_as_asked_is_refused(odd: dict[str, Any]) -> None:
    talk = Talk()
    start = {"do": "start", "id": "w", "argv": ["true"], "env": {}, "cwd": "/", "cores": []}
    talk.channel.send(start | odd)
    assert talk.until("refused")[-1][1]["id"] == "w"
    talk.start("next", "print('here')")
    assert printed(talk.until("exit")) == ["here"]
    talk.channel.close()


def test_an_agent_that_fails_ends_what_it_started() -> None:
    """Even with such a bug, processes that left its session are ended."""
    program = sources("agent").replace(rb"\nBEAT_SECONDS = 1.0", rb"\nBEAT_SECONDS = 'x'")
    with subprocess.Popen(
        [sys.executable, *FLAGS, "-c", LOADER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as agent:
        agent.stdin.write(program)
        agent.stdin.flush()
        said = [json.loads(text) for text in agent.stdout if text.startswith(b"{")]
        assert agent.wait(20) == 0
    assert said[-1]["say"] == "ending"
    assert said[-1]["why"].startswith("the agent failed: TypeError: ")


def test_messages_of_a_channel_that_was_given_up_count_for_nothing() -> None:
    with closing(Agents(start_local)) as agents:
        agents.begin_job([this_machine()])
        (name,) = agents.channels
        old = agents.channels[name]
        agents.give_up(name)
        agents.begin_job([this_machine()])
        agents.inbox.put(Message(host=old.host, say="lost", values={}, flow=old.program.flow))
        deadline = time.monotonic() + 1.0
        said = set()
        while (left := deadline - time.monotonic()) > 0:
            message = agents.receive(left)
            said.add(message.say if message else "")
        assert "lost" not in said


def test_an_ssh_server_that_ignores_flow_control_is_cut_off() -> None:
    floods: list[bool] = []
    pipe = BufferedPipe()
    limit_unread(pipe, lambda: floods.append(True))
    for _ in range(200):
        pipe.feed(b"x" * 65536)
    assert len(pipe) < 5 << 20
    assert floods
    while pipe.read(1 << 20):
        pass  # what came before is read, and then its end


@pytest.mark.parametrize("wanted", [None, 80, -1])
@pytest.mark.parametrize("address", ["\ud800", "a" * 70 + ".b", "a\0"])
def test_an_address_that_is_none_has_no_port(address: str, wanted: int | None) -> None:
    """Such a request must not end an agent, which has processes to keep."""
    with pytest.raises(LaunchError):
        free_port(address, wanted)


def test_windows_without_processor_seconds_are_judged() -> None:
    alone = tiny(kvstore="local", devices=1, windows=1, warmup_windows=0)
    worker = ProcessState(
        process=process(0), log=WorkerLog(rank=0, facts={"num_workers": 1, "worker_batch": 4})
    )
    worker.log.windows, worker.log.done = [{"seconds": 1.0, "end": 1.0, "images": 4}], {}
    verdict = judge(alone, [worker])
    assert (verdict.status, NoteKind.BUSY_BASELINE in {note.kind for note in verdict.notes}) == (
        "ok",
        True,
    )
