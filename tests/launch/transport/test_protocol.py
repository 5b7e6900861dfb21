"""A host may send messages of its own processes only; otherwise it is lost."""

import json
import math
import random
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bench.engines.mxnet import MXNET
from bench.engines.torch import TORCH
from bench.notes import texts
from launch.hosts import rehearse
from launch.job.agents import GONE
from launch.job.logs import Logs
from launch.job.monitor import Deadlines, JobMonitor
from launch.job.plan import plan
from launch.job.progress import job_progress
from launch.job.validity import judge
from launch.preflight.check import examine
from launch.preflight.findings import HostReport, Requirements, compare_hosts, notes, problems
from launch.preflight.table import host_row, lines
from launch.remote.errors import LaunchError, ProtocolError
from launch.transport.client import Flow, Message, RemoteProgram
from launch.transport.line import split
from launch.transport.protocol import (
    ANSWERS,
    RECEIVER,
    AgentMessages,
    Noise,
    parse_answer,
    parse_message,
)
from tests.support.hosts.host_reports import FIT
from tests.support.hosts.liar import line, mutated, spoiled, start_with
from tests.support.programs.jobs import trial

TRIAL = trial(devices_per_host=1)
HOSTS = rehearse(2, 1)
JOB = plan(TRIAL, HOSTS, 1)
MACHINE = {"machine": "m", "cores": 2, "busy": 1.0, "ours": 0.5, "stolen": 0.0, "swapped": 0}
MACHINE |= {"throttled": 0, "clock": 2.5, "gpu_programs": [7], "energy": {"rapl": 3.0, "gpu": "no"}}
WINDOW = {"event": "window", "rank": 0, "index": 0, "seconds": 0.5, "end": 9.0, "images": 4}
WINDOW |= {"own_seconds": 0.4, "input_wait": 0.1, "run_delay": 0.0}
READY = {"event": "ready", "rank": 0, "num_workers": 2, "worker_batch": 4, "instructions": "avx2"}
NOTE = {"kind": "little-computing", "figures": {"megabytes": 9.0, "seconds": 0.1}, "scope": {}}
DONE = {"event": "done", "rank": 0, "ended": "windows", "weight_hash": "0", "notes": [NOTE]}
EPOCH = {"event": "epoch", "rank": 0, "epoch": 0, "correct": 3, "total": 4}
EVENTS = [READY, WINDOW, EPOCH, {"event": "validating", "rank": 0, "total": 3}, DONE]
EVENTS += [{"event": "refused", "rank": -1, "count": 3}, {"event": "registered", "rank": -1}]
EVENTS += [{"event": "measured", "rank": 0}]
EVENTS += [{"event": "failed", "rank": 0, "message": "no", "error": "ValueError"}]
SAID: list[dict[str, Any]] = [
    {"say": "hello", "pid": 7},
    {"say": "beat", "at": 1.0, "stopped": ["worker-0"], "cpu": {"worker-0": 1.5}, "gpu": {"0": 0.5}}
    | {"machine": MACHINE},
    {"say": "beat", "at": 9.0, "stopped": [], "cpu": {"worker-0": 2.5}, "gpu": {}}
    | {"machine": MACHINE | {"busy": 9.0, "cores": 0, "stolen": 5.0}},
    {"say": "beat", "at": 9.0, "stopped": [], "cpu": {}, "gpu": {}, "delay": {"worker-0": 0.5}}
    | {"machine": MACHINE | {"network": {"eth0": (10, 2**61)}, "retransmits": 3}},
    {"say": "beat", "at": 9.0, "stopped": [], "cpu": {}, "gpu": {"0": 0.5}, "gpu_at": 8.0}
    | {"gpu_temperature": {"0": 61.0}, "gpu_clock": {"0": 0.9}, "machine": MACHINE},
    {"say": "started", "id": "worker-0", "pid": 8},
    {"say": "refused", "id": "worker-0", "why": "no"},
    *({"say": "event", "id": "worker-0", "lines": [json.dumps(one)]} for one in EVENTS),
    {"say": "output", "id": "worker-0", "lines": ["a", "b"]},
    {"say": "exit", "id": "worker-0", "code": 0},
    {"say": "exit", "id": "worker-0", "signal": 9},
    {"say": "stopped"},
    {"say": "leased"},
    {"say": "port", "port": 9000},
    {"say": "port", "port": 0, "why": "taken"},
    {"say": "ending", "why": "it was told to", "stopped": False},
]


def asked(*names: str) -> AgentMessages:
    """Return the valid messages of an agent that got every request."""
    messages = AgentMessages(0.0)
    for name in names or ("worker-0",):
        messages.asked({"do": "start", "id": name})
    for do in ("lease", "port", "stop"):
        messages.asked({"do": do})
    return messages


@pytest.mark.parametrize("message", SAID, ids=range(len(SAID)))
def test_what_an_agent_says_is_a_message(message: dict[str, Any]) -> None:
    found = asked().read(line(**message), 0.0)
    assert found == (message["say"], {name: one for name, one in message.items() if name != "say"})


NESTED = b'{"say": "event", "id": "worker-0", "lines": ' + b"[" * 100_000
WRONG = (
    *(b'{"say": []}', b'{"say": "gossip"}', b'{"say"', b'{"say": "beat"}', NESTED),
    *(b'{"say": "output", "id": "worker-0"}', b'{"say": "output", "id": "worker-0", "lines": 1}'),
    *(b'{"say": "exit", "id": "worker-0"}', b'{"say": "exit", "id": "worker-0", "code": "0"}'),
    b'{"say": "exit", "id": "worker-0", "code": 0, "signal": 9}',
    b'{"say": "exit", "id": "worker-0", "signal": 1e9}',
    b'{"say": "port", "port": 65536}',
    b'{"say": "output", "id": "worker-0", "lines": ["a"',
    b'{"say": "output", "id": "worker-0", "lines": [NaN]}',
    b'{"say": "rejected", "why": "no"}',
)


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_a_message_of_another_shape_breaks_the_protocol(text: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        asked().read(text, 0.0)
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("say", ["output", "event", "started", "refused", "exit"])
@pytest.mark.parametrize("name", ["worker-1", "/abs/victim", "../../../../evil", "a\0b", ""])
def test_a_host_speaks_for_its_own_processes_alone(say: str, name: str) -> None:
    values = {"lines": ["t"]} if say in {"output", "event"} else {"pid": 1, "why": "", "code": 0}
    with pytest.raises(ProtocolError, match=f"{say}: expected a process of this host"):
        asked().read(line(say=say, id=name, **values), 0.0)


ODD_NETWORKS: list[Any] = [
    *({"eth0": value} for value in ((-1, 0), (0, 2**63), (1,), (1.5, 0))),
    {str(n): (0, 0) for n in range(101)},
    [],
]


@pytest.mark.parametrize(
    "part",
    [
        *({"delay": {"worker-0": value}} for value in (-1, math.nan, 1e300, "1", None)),
        *(
            {name: {"0": value}}
            for name, most in (("gpu", 1), ("gpu_clock", 1), ("gpu_temperature", 200))
            for value in (-0.1, most + 0.5, math.nan, "1", None)
        ),
        *({"gpu_at": value} for value in (-1, 1.5, math.nan, 1e300, "1", None)),
        *({"machine": MACHINE | {"network": value}} for value in ODD_NETWORKS),
        *({"machine": MACHINE | {"retransmits": value}} for value in (-1, 10**16, 0.5)),
    ],
    ids=range(35),
)
def test_a_heartbeat_with_absurd_figures_breaks_the_protocol(part: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match="beat: "):
        asked().read(line(**SAID[1] | part), 0.0)


@pytest.mark.parametrize(
    "part",
    [{"cpu": {"worker-1": 1.0}}, {"delay": {"worker-1": 1.0}}, {"stopped": ["worker-1"]}],
)
def test_a_heartbeat_is_about_processes_of_its_host_alone(part: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match="beat: expected a process of this host"):
        asked().read(line(**SAID[1] | part), 0.0)


@pytest.mark.parametrize("say", ["started", "exit", "refused"])
def test_a_process_begins_once_and_ends_once(say: str) -> None:
    messages = asked()
    text = line(say=say, id="worker-0", pid=1, why="", code=0)
    assert messages.read(text, 0.0) is not None
    with pytest.raises(ProtocolError, match="worker-0 was reported twice"):
        messages.read(text, 0.0)


@pytest.mark.parametrize("say", ["hello", "leased", "port", "stopped"])
def test_an_agent_answers_what_it_was_asked_and_no_more(say: str) -> None:
    messages = asked()
    text = line(say=say, pid=1, port=1)
    assert messages.read(text, 0.0) is not None
    with pytest.raises(ProtocolError, match="expected no answer without a command"):
        messages.read(text, 0.0)


def test_the_processes_of_the_next_job_are_others_though_they_have_the_same_names() -> None:
    messages = asked()
    text = line(say="exit", id="worker-0", code=0)
    messages.read(text, 0.0)
    messages.asked({"do": "start", "id": "worker-0"})
    assert messages.read(text, 0.0) is not None


def test_heartbeats_without_end_break_the_protocol() -> None:
    messages = asked()
    beat = line(**SAID[2])
    with pytest.raises(ProtocolError, match="beat: expected one per second"):
        list(map(messages.read, [beat] * 1000, [5.0] * 1000))
    messages = asked()
    for second in range(1000):
        messages.read(beat, float(second))


def test_what_a_host_prints_beside_messages_is_skipped_up_to_a_bound() -> None:
    messages = asked()
    for text in (b"Welcome to node01", b"[1, 2]", b'{"event": 1}', b"", b"[" * 100_000, b"\xff"):
        assert messages.read(text, 0.0) is None
    with pytest.raises(ProtocolError, match="got over 16 MiB of other output"):
        list(map(Noise().skip, [b"x" * 1_000_000] * 100))


def test_a_line_without_end_breaks_the_protocol_and_takes_no_more_memory() -> None:
    read = 0

    def pieces() -> Any:
        nonlocal read
        while True:
            read += 65536
            yield b"x" * 65536

    with pytest.raises(ProtocolError, match="expected lines of at most 1 MiB"):
        list(split(pieces(), 1 << 20))
    assert read <= (1 << 20) + 65536
    assert list(split([b"a\nb", b"c\n\nd", b"e\n", b"torn"], 9)) == [b"a", b"bc", b"", b"de"]


def test_half_of_a_name_that_is_no_utf_8_is_no_broken_protocol() -> None:
    found = asked().read(line(say="refused", id="worker-0", why="no /x\udcff"), 0.0)
    assert found == ("refused", {"id": "worker-0", "why": "no /x "})


def test_the_text_of_a_message_has_no_terminal_sequence() -> None:
    found = asked().read(line(say="ending", why="\x1b]0;t\x07\x1b[31mred\n\r", stopped=False), 0.0)
    assert found is not None
    assert found[1]["why"] == "red  "


def test_a_message_mutated_at_random_is_taken_or_breaks_the_protocol(tmp_path: Path) -> None:
    """Every accepted message can be monitored, shown, judged and stored."""
    chance = random.Random(18)
    taken = 0
    logs = Logs(tmp_path, JOB, 10_000)
    for number in range(4000):
        monitor = JobMonitor(JOB, Deadlines(), 0.0, 3)
        for message in chance.sample(SAID, 4):
            if "lines" in message and chance.random() < 0.7:
                event = mutated(chance, json.loads(json.dumps(chance.choice(EVENTS))))
                message = message | {"lines": [json.dumps(event)]}  # noqa: PLW2901
            elif chance.random() < 0.7:
                message = mutated(chance, message)  # noqa: PLW2901
            text = json.dumps(message).encode()
            if number % 5 == 0:
                text = spoiled(chance, text)
            try:
                found = asked().read(text, 0.0)
            except ProtocolError as error:
                assert str(error).isprintable()  # noqa: PT017
                continue
            if found is not None:
                taken += 1
                say, values = found
                _watched(monitor, Message(host=HOSTS[0], say=say, values=values), logs)
    logs.close()
    assert taken > 2000
    assert {path.name.partition(".")[0] for path in tmp_path.iterdir()} <= {"worker-0", "hosts"}


def _watched(monitor: JobMonitor, message: Message, logs: Logs) -> None:
    list(monitor.take(message))
    if message.say in GONE | {"refused"}:
        lost = monitor.ended(5.0)
        assert lost is not None
        assert lost.message
        return
    logs.take(message)
    job_progress(monitor, 5.0)
    verdict = (
        monitor.ended(5.0)
        or monitor.late(5.0)
        or judge(TRIAL, monitor.workers, (), monitor.machines)
    )
    assert isinstance(verdict.message, str)
    texts(verdict.notes)


CONTENTS = {"lines": ["a.rec 3 1 2"], "share": [0, 2]}
DISK = {"data_bytes": 9, "data_images": 3, "cached": 0.0, "ordered_bytes": 9}
DISK |= {"ordered_seconds": 0.1, "random_bytes": 9, "random_images": 3, "random_seconds": 0.1}
ANSWERED: list[dict[str, Any]] = [
    {"say": "where", "addresses": {"eth0": "10.0.0.1"}, "reached": ["10.0.0.1"]},
    {"say": "contents", "contents": [CONTENTS, CONTENTS | {"share": None}]},
    {"say": "disk", **DISK},
    {"say": "disk", **DISK, "cached": None},
    {"say": "listening", "port": 9000},
    {"say": "reached", "failed": {"node02": "no route"}},
    {"say": "measured", "ms": 0.1, "mb_s": 100.0},
    {"say": "failed", "why": "no"},
    {"say": "broken", "why": "no"},
    {"say": "ended", "owner": "ann", "left": False, "others": [{"user": "bob", "pid": 1}]},
    {"say": "done", "code": 0, "lines": ["a"]},
    {"say": "lacking"},
]
GPU = {"index": "0", "name": "V100", "memory": "16000", "used": "10", "compute_cap": "7.0"}
GPU |= {"mig": "N/A", "driver": "525"}
FACTS = {name: one for name, one in FIT.items() if name not in {"clock_skew", "say", "energy"}}
FACTS |= {"hostname": "h", "machine": "m", "architecture": "x86_64", "processor": "p", "commit": ""}
FACTS |= {"available_mib": 1, "addresses": {"eth0": "10.0.0.1"}, "reached": ["10.0.0.1"]}
FACTS |= {
    "master": [],
    "gpu_problem": "",
    "gpus": [GPU],
    "libraries": [],
    "variables": {"OMP": "1"},
}
FACTS |= {"time": 1.0, "user": "u", "holder": {"user": "ann", "pid": 3}, "features": ["CUDA"]}
FACTS |= {"opencv": {"version": "4"}, "login_shell": "x", "shell": "y", "code_problem": ""}
FACTS |= {"torch": "2.13.0", "torch_cuda": "13.0", "torch_archs": ["sm_90"]}
FACTS |= {"gpu_processes": [1], "others": [{"user": "bob (uid 2)", "pid": 9}]}


def test_an_answer_is_one_of_its_kind_to_the_question_that_was_asked() -> None:
    for message in [*ANSWERED, {"say": "facts", **FACTS}]:
        found = parse_answer(line(**message, n=3), 3)
        assert found is not None, message
        assert found[0] == message["say"]
        assert json.loads(json.dumps(found[1])).items() <= message.items()
        assert parse_answer(line(**message, n=2), 3) is None
        assert parse_answer(line(**message), 3) is None


OPTIONAL = {"features", "opencv", "torch", "torch_cuda", "torch_archs"}


@pytest.mark.parametrize("fact", sorted({*FACTS} - OPTIONAL))
def test_facts_of_which_one_is_missing_break_the_protocol(fact: str) -> None:
    with pytest.raises(ProtocolError, match=f"facts: .*`{fact}`"):
        parse_answer(line(say="facts", n=1, **{k: v for k, v in FACTS.items() if k != fact}), 1)


def test_an_address_that_is_none_breaks_the_protocol() -> None:
    with pytest.raises(ProtocolError, match="expected IPv4 addresses"):
        parse_answer(line(say="facts", n=1, **FACTS | {"addresses": {"eth0": "999.1.1.1"}}), 1)


def test_facts_mutated_at_random_are_taken_or_break_the_protocol() -> None:
    """Every accepted report can be compared with other hosts and shown."""
    chance = random.Random(18)
    taken = 0
    good = HostReport(host=HOSTS[0], facts=FACTS | {"clock_skew": 0.0})
    for _ in range(3000):
        message = mutated(chance, {"say": "facts", "n": 1, **FACTS})
        text = json.dumps(message).encode()
        try:
            found = parse_answer(spoiled(chance, text) if chance.random() < 0.2 else text, 1)
        except ProtocolError:
            continue
        if found is not None and found[0] == "facts":
            taken += 1
            facts = found[1] | {"clock_skew": 0.0}
            wrong = (
                *problems(facts, Requirements(code="x")),
                *problems(facts, Requirements(device="gpu", engines=(MXNET, TORCH))),
            )
            one = HostReport(host=HOSTS[1], facts=facts, problems=wrong, notes=tuple(notes(facts)))
            both = compare_hosts([good, one])
            assert all(text.isprintable() for text in lines(both))
            host_row(both[1])
    assert taken > 300


@pytest.mark.parametrize("kinds", ["answers", "receiver"])
def test_answers_mutated_at_random_are_taken_or_break_the_protocol(kinds: str) -> None:
    chance = random.Random(18)
    has = {"say": "has", "files": ["same", None, {"crc": 1}, {"part": 3, "crc": 2}]}
    others = [
        has,
        {"say": "compared", "differs": [["a", "b"]], "strange": ["c"]},
        {"say": "finished"},
    ]
    others += [{"say": "beat", "done": 1, "total": 2}]
    for _ in range(4000):
        message = mutated(chance, chance.choice(ANSWERED if kinds == "answers" else others))
        text = json.dumps(message).encode()
        text = spoiled(chance, text) if chance.random() < 0.3 else text
        try:
            found = parse_message(text, ANSWERS if kinds == "answers" else RECEIVER)
        except ProtocolError:
            continue
        if found is None:
            Noise().skip(text)


def test_who_reads_a_host_that_never_pauses_waits_until_messages_are_taken() -> None:
    flow, over, read = Flow(), threading.Event(), []

    def reads() -> None:
        while flow.read(100_000, over):
            read.append(1)

    thread = threading.Thread(target=reads, daemon=True)
    thread.start()
    time.sleep(0.2)
    assert len(read) == 11
    flow.take(300_000)
    time.sleep(0.2)
    assert len(read) == 14
    over.set()
    thread.join(5)
    assert not thread.is_alive()


def _facts(asks: dict[str, Any], change: dict[str, Any]) -> list[bytes]:
    return [line(say="facts", **{**FACTS, **change}, n=asks["n"])] if asks["do"] == "facts" else []


ODD_HOSTS: dict[str, Any] = {
    "no fact": lambda asks: [line(say="facts", n=asks["n"])],
    "another type": lambda asks: _facts(asks, {"cores": "many"}),
    "nested": lambda _: [b'{"say": "facts", "n": 1, "x": ' + b"[" * 100_000 + b"\n"],
    "no address": lambda asks: _facts(asks, {"addresses": {"eth0": "999.1.1.1"}}),
    "no end": lambda _: (b'{"say": "facts", "x": "' + b"x" * (1 << 20) for _ in range(20)),
    "another answer": lambda asks: [line(say="listening", port=1, n=asks["n"])],
    "noise": lambda _: [b"x" * (1 << 20) + b"\n"] * 20,
}


@pytest.mark.program
@pytest.mark.parametrize("odd", ODD_HOSTS)
def test_one_odd_host_hides_no_other(odd: str) -> None:
    start = start_with(ODD_HOSTS[odd], "host02")
    began = time.monotonic()
    found = examine(HOSTS, start, Requirements(engines=()))
    assert time.monotonic() - began < 100
    assert found[0].facts["hostname"]
    assert "the probe broke the protocol: " in found[1].problems[0]
    assert all(text.isprintable() for text in lines(found))


def test_an_answer_without_end_is_a_launch_error() -> None:
    start = start_with(ODD_HOSTS["no end"], "host02")
    told = pytest.raises(LaunchError, match="expected lines of at most 8 MiB, got a longer one")
    with closing(RemoteProgram(HOSTS[1], start, "probe")) as program, told:
        program.request({"do": "facts"}, 60.0, "facts")
