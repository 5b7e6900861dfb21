"""Interference with a measurement is reported by host."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from bench.events import Event
from bench.notes import NoteKind, texts
from launch.hosts import pretend
from launch.job.interference import (
    GpuUse,
    MachineCounters,
    ServerUse,
    Span,
    extended,
    gpu_notes,
    interference,
    machine_values,
)
from launch.job.monitor import Deadlines, JobMonitor
from launch.job.plan import plan
from launch.job.validity import judge
from launch.remote.telemetry import (
    Counters,
    interface_bytes,
    processors,
    retransmits,
    swapped,
)
from launch.transport.client import Message
from plots.page.panels import panel_data
from plots.summary import summary
from plots.tables.scaling import markdown
from results.quality import Quality, quality_of
from results.record import emit, parse
from results.run import load
from tests.support.hosts.agents import Talk
from tests.support.programs.jobs import measured, tiny, trial

QUIET = MachineCounters(at=100.0, machine="m", cores=4, busy=50.0, ours=20.0, clock=3.4)
BUSY = "while True: pass"
STAT = """cpu  1000 200 300 9000 50 10 40 70 30 0
cpu0 500 100 150 4500 25 5 20 35 15 0
cpu1 500 100 150 4500 25 5 20 35 15 0
intr 5
"""
DEV = """Inter-|   Receive                            |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs
    lo: 100 2 0 0 0 0 0 0 200 2 0 0 0 0 0 0
  eth0:7000 5 0 0 0 0 0 0 8 1 0 0 0 0 0 0
"""
SNMP = """Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoAlgorithm InSegs OutSegs RetransSegs InErrs
Tcp: 1 1000 2000 42 0
"""


def after(seconds: float = 10.0, **more: Any) -> MachineCounters:
    """Return counters ten seconds later, with a job on two of four cores."""
    used = {"at": QUIET.at + seconds, "busy": QUIET.busy + 2 * seconds}
    return replace(QUIET, **{**used, "ours": QUIET.ours + 2 * seconds, **more})


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (after(), []),
        (after(busy=73.9), []),
        (after(busy=83.0), ["other programs used 1.3 of 4 cores"]),
        (after(stolen=0.3), []),
        (after(stolen=2.4), ["the hypervisor gave 6 % of the CPU time to other VMs"]),
        (after(swapped=1 << 20), []),
        (after(swapped=12 << 20), ["12 MiB moved to and from swap"]),
        (after(throttled=1), ["the CPUs were thermally throttled"]),
        (after(clock=3.2), []),
        (after(clock=2.1), ["the CPU clock dropped from 3.4 to 2.1 GHz"]),
        (after(clock=0.0), []),
        (after(gpu_programs=(7, 9)), ["other programs (PID 7, 9) used the GPUs"]),
        (
            after(busy=83.0, throttled=2),
            ["other programs used 1.3 of 4 cores", "the CPUs were thermally throttled"],
        ),
        # a gap too short for ticks of 10 ms
        (after(1.0, busy=99.0), []),
    ],
)
def test_each_kind_of_disturbance_is_a_sentence(end: MachineCounters, said: list[str]) -> None:
    told = [f"node03: {one} during the measurement" for one in said]
    assert texts(interference({"node03": (QUIET, end)})) == told


def test_agents_that_share_a_machine_are_not_each_others_strangers() -> None:
    both = {"a": (QUIET, after(busy=90.0)), "b": (QUIET, after(busy=90.0))}
    assert interference(both) == []
    assert interference({"a": both["a"]}) != []
    other = tuple(replace(one, machine="n") for one in both["b"])
    assert len(interference({"a": both["a"], "b": (other[0], other[1])})) == 2
    loud = {name: (begin, replace(end, busy=120.0)) for name, (begin, end) in both.items()}
    (said,) = texts(interference(loud))
    assert said.startswith(
        "a and 1 more host on the same machine: other programs used 3.0 of 4 cores "
    )


def test_amounts_of_a_machine_are_in_the_last_counters_of_its_hosts() -> None:
    end = after(busy=83.0, stolen=2.4, swapped=12 << 20, throttled=1)
    begin, last = machine_values({"node03": (QUIET, end)})["node03"]
    assert "interference" not in begin
    found = {"seconds": 10.0, "stolen": 2.4, "swapped": 12 << 20, "throttled": 1}
    assert last["interference"] == found | {"others": pytest.approx(13.0)}
    both = machine_values({"a": (QUIET, after(busy=90.0)), "b": (QUIET, after(busy=90.0))})
    assert [both[host][1]["interference"]["others"] for host in "ab"] == [0.0, 0.0]
    assert "interference" not in machine_values({"a": (QUIET, QUIET)})["a"][1]


def test_counters_that_a_host_does_not_have_are_absent() -> None:
    for one in machine_values({"a": (QUIET, after())})["a"]:
        assert not {"servers", "network", "gpus"} & one.keys()
        assert one["gpu_programs"] == []


def test_the_busiest_interface_is_that_which_moved_most_bytes_in_between() -> None:
    begin = replace(QUIET, network={"lo": (900, 900), "eth0": (10, 20), "gone": (0, 0)})
    end = after(network={"lo": (950, 950), "eth0": (200, 60), "new": (10**6, 10**6)})
    first, last = machine_values({"a": (begin, end)})["a"]
    assert first["network"] == {"interface": "eth0", "bytes_in": 10, "bytes_out": 20}
    assert last["network"] == {"interface": "eth0", "bytes_in": 200, "bytes_out": 60}


def used(at: float, busy: float | None = 1.0, **more: Any) -> MachineCounters:
    """Return counters one second after an answer of nvidia-smi."""
    use = GpuUse(
        at=QUIET.at + at, **{"utilization": busy, "temperature": 60.0, "clock": 0.95, **more}
    )
    return after(at + 1.0, gpus=use)


def spanned(*counted: MachineCounters) -> Span:
    """Return the span of counters, from an answer of the start-up on."""
    span = extended(None, replace(QUIET, gpus=GpuUse(at=QUIET.at - 1.0, utilization=0.0)))
    for one in counted:
        span = extended(span, one)
    return span


def test_figures_of_gpus_are_over_all_answers_of_the_span() -> None:
    answers = [(1.0, 0.9, 58.0, 0.97), (3.0, 0.6, 63.0, 0.8), (5.0, 0.9, 61.0, 0.95)]
    counted = [used(at, busy, temperature=c, clock=share) for at, busy, c, share in answers]
    repeated = replace(counted[1], at=counted[1].at + 1.0)
    begin, end = spanned(counted[0], counted[1], repeated, counted[2])
    assert begin.gpus is None
    assert end.gpus is not None
    assert end.gpus.utilization == pytest.approx(0.8)
    assert (end.gpus.answers, end.gpus.temperature, end.gpus.clock) == (3, 63.0, 0.8)
    (values,) = machine_values({"a": (begin, end)}).values()
    assert "gpus" not in values[0]
    assert values[1]["gpus"] == asdict(end.gpus)


@pytest.mark.parametrize(
    "counted",
    [
        [],
        [used(0.0, 0.0), used(0.0, 0.0)],  # queried before the span
        [used(1.0, 0.1, clock=0.1)],
        [used(1.0), used(3.0), after(9.0)],  # nvidia-smi does not answer any more
    ],
    ids=range(4),
)
def test_gpus_with_fewer_than_two_answers_in_the_span_have_no_figures(
    counted: list[MachineCounters],
) -> None:
    span = spanned(*counted)
    assert "gpus" not in machine_values({"a": span})["a"][1]
    assert gpu_notes({"a": span}) == []


def test_a_figure_that_one_answer_lacks_is_unknown() -> None:
    end = spanned(used(1.0, None), used(3.0, clock=None), used(5.0, temperature=50.0))[1]
    assert end.gpus == GpuUse(at=QUIET.at + 5.0, answers=3, temperature=60.0)
    assert gpu_notes({"a": (QUIET, end)}) == []


def test_gpus_that_wait_or_are_slowed_have_a_remark() -> None:
    good, bad = spanned(used(1.0), used(3.0)), spanned(used(1.0, 0.6, clock=0.7), used(3.0, 0.7))
    found = gpu_notes({"good": good, "bad": bad})
    assert [note.kind for note in found] == [NoteKind.LOW_GPU_UTILIZATION, NoteKind.LOW_GPU_CLOCK]
    busy, clock = texts(found)
    assert busy.startswith("bad: the GPUs were busy for only 65 % of the measured time, so ")
    assert clock.startswith("bad: the SM clock of a GPU fell to 70 % of its maximum")
    assert clock.endswith("(highest temperature 60 °C)")
    assert not any(note.kind.headline for note in found)
    assert {quality_of(note) for note in found} == {Quality.PUBLISHABLE}


def test_only_measured_training_has_remarks_on_gpus() -> None:
    monitor = measuring()
    for rank in range(2):
        window(monitor, rank, 4)
    spans = {"host01": spanned(used(1.0, 0.5), used(3.0, 0.5))}
    real = trial().replace(engine="mxnet", fake_seconds=())
    for what, count in ((real, 1), (real.replace(mode="bandwidth"), 0), (trial(), 0)):
        notes = judge(what, monitor.workers, (), spans).notes
        assert sum(note.kind is NoteKind.LOW_GPU_UTILIZATION for note in notes) == count


def test_a_heartbeat_counts_for_the_jobs_own_gpus_only() -> None:
    (host,) = pretend(1, 2)
    monitor = JobMonitor(plan(trial(device="gpu"), [host], 1), Deadlines(), 0.0)
    facts = {"num_workers": 1, "worker_batch": 8}
    monitor.take_event("worker-0", Event(kind="ready", rank=0, values=facts), 1.0)
    window(monitor, 0)
    machine = {"machine": "m", "cores": 4, "busy": 1.0, "ours": 1.0, "gpu_programs": []}
    beat: dict[str, Any] = {"stopped": [], "cpu": {"worker-0": 1.0}}
    beat |= {"machine": machine, "gpu": {"0": 0.5, "1": 0.7, "2": 1.0}}
    new = {"gpu_temperature": {"0": 61.0, "1": 64.0, "2": 90.0}, "gpu_clock": {"0": 0.9, "2": 0.1}}
    for more in ({}, new | {"gpu_at": 1.5}, new | {"gpu_at": 3.5}):
        values = beat | more | {"at": more.get("gpu_at", 0.5) + 0.5}
        assert list(monitor.take(Message(host=host, say="beat", values=values, at=1.0))) == []
    (span,) = monitor.machines.values()
    use = span[1].gpus
    assert use is not None
    assert use.utilization == pytest.approx(0.6)
    assert (use.answers, use.temperature, use.clock) == (2, 64.0, None)


def measuring() -> JobMonitor:
    monitor = JobMonitor(plan(trial(), pretend(1, 2), 1), Deadlines(), 0.0)
    for rank in range(2):
        facts = {"num_workers": 2, "worker_batch": 4}
        monitor.take_event(f"worker-{rank}", Event(kind="ready", rank=rank, values=facts), 1.0)
    return monitor


def window(monitor: JobMonitor, rank: int, count: int = 1) -> None:
    for _ in range(count):
        values = {"seconds": 1.0, "cpu_seconds": 1.0, "end": 1.0, "images": 4}
        monitor.take_event(f"worker-{rank}", Event(kind="window", rank=rank, values=values), 2.0)


def test_what_counts_is_what_happens_while_all_measure() -> None:
    monitor = measuring()
    monitor.take_counters("host01", replace(QUIET, busy=1.0))
    window(monitor, 0)
    monitor.take_counters("host01", replace(QUIET, busy=2.0))
    window(monitor, 1)
    monitor.take_counters("host01", QUIET)
    monitor.take_counters("host01", after(5.0))
    monitor.take_counters("host01", after(9.0))
    monitor.take_event("worker-0", Event(kind="measured", rank=0, values={}), 12.0)
    monitor.take_counters("host01", after(10.0))
    monitor.take_event("worker-0", Event(kind="done", rank=0, values={}), 12.0)
    monitor.take_counters("host01", after(11.0))
    assert monitor.machines == {"host01": (QUIET, after(9.0))}


def test_a_hosts_heartbeat_counts_for_its_own_servers_only() -> None:
    what = trial(devices=2, devices_per_host=1)
    monitor = JobMonitor(plan(what, pretend(2, 1), 1), Deadlines(), 0.0)
    for rank in range(2):
        facts = {"num_workers": 2, "worker_batch": 4}
        monitor.take_event(f"worker-{rank}", Event(kind="ready", rank=rank, values=facts), 1.0)
        window(monitor, rank)
    machine = {"machine": "m", "cores": 4, "busy": 1.0, "ours": 1.0, "gpu_programs": []}
    cpu = {"server-0": 2.0, "server-1": 9.0, "worker-0": 5.0, "server-7": 1.0}
    beat = {"at": 1.0, "stopped": [], "cpu": cpu, "delay": {"server-0": 0.5}, "gpu": {}}
    host = pretend(2, 1)[0]
    message = Message(host=host, say="beat", values=beat | {"machine": machine}, at=1.0)
    assert list(monitor.take(message)) == []
    (span,) = monitor.machines.values()
    assert span[1].servers == (ServerUse(process="server-0", cpu_seconds=2.0, run_delay=0.5),)
    found = machine_values(monitor.machines)[host.name][1]["servers"]
    assert found == [{"process": "server-0", "cpu_seconds": 2.0, "run_delay": 0.5}]


def test_a_disturbance_stands_in_the_message_of_a_good_job_and_not_in_a_rehearsals() -> None:
    monitor = measuring()
    for rank in range(2):
        window(monitor, rank, 4)
    spans = {"host01": (QUIET, after(busy=83.0))}
    real = trial().replace(engine="mxnet", fake_seconds=())
    verdict = judge(real, monitor.workers, (), spans)
    said = "host01: other programs used 1.3 of 4 cores during the measurement"
    assert (verdict.status, texts(verdict.notes)) == ("ok", [said])
    assert judge(trial(), monitor.workers, (), spans).notes == ()


def test_counters_are_read_as_the_kernel_writes_them() -> None:
    assert processors(STAT) == {"cores": 2, "busy": 15.5, "stolen": 0.7}
    assert processors("") == {"cores": 0, "busy": 0.0, "stolen": 0.0}
    assert swapped("nr_free_pages 9\npswpin 2\npswpout 3\n") % 5 == 0
    assert swapped("") == 0
    assert interface_bytes(DEV) == {"lo": [100, 200], "eth0": [7000, 8]}
    assert interface_bytes("") == {}
    assert (retransmits(SNMP), retransmits("")) == (42, 0)
    told = Counters().read(0.0, 7.0, {0})
    assert "lo" in told["network"]
    assert told["ours"] > 7.0
    assert told["machine"]
    MachineCounters(at=0.0, **told)


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for one in loops:
            one.kill()
            one.wait()


@pytest.mark.program
def test_an_agent_counts_what_it_started_as_its_own_also_when_that_has_ended() -> None:
    talk = Talk()
    try:
        talk.start("w", "import time\nwhile time.process_time() < 0.3: pass")
        talk.start("stays", "import time; time.sleep(60)")
        talk.until("exit", 60)
        first = talk.until("beat")[-1][1]["machine"]
        last = talk.until("beat")[-1][1]["machine"]
    finally:
        talk.channel.close()
    assert 0.3 <= first["ours"] <= last["ours"] < 10.0
    assert last["busy"] - first["busy"] >= 0.0


@pytest.mark.slow
@pytest.mark.mxnet
def test_a_busy_loop_beside_a_job_is_told_in_its_record_and_in_the_summary(tmp_path: Path) -> None:
    # some four seconds: less than two are not judged
    what = tiny(windows=100, batch_per_device=128, image_shape=[3, 96, 96])
    with busy_loops(2):
        time.sleep(0.2)
        (record,) = measured(tmp_path, what, deadlines=Deadlines())
    assert record.status == "ok"
    assert NoteKind.OTHER_PROGRAMS in {note.kind for note in record.notes}
    ((begin, end),) = record.machines.values()
    assert end["at"] > begin["at"]
    assert parse(emit(record)) == record
    run = load(tmp_path)
    assert f"{NoteKind.OTHER_PROGRAMS.headline}: tiny local x1" in summary(run)
    # Beside busy loops it may not become steady; it is marked either way.
    assert any(f"| {status} !" in markdown(run.rows) for status in ("ok", "unstable"))
    assert "other programs used " in markdown(run.rows)
    assert panel_data(run)["ringed"]
