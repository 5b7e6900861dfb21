"""Interference from other programs during a measurement, by the machine counters.

Pure.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean
from typing import Any

from bench.notes import Note, NoteKind
from launch.remote.facts import OTHERS_SHARE

# A share of a machine's processor time.
_STOLEN_ABOVE = 0.01
_SWAPPED_ABOVE = 1 << 20
_CLOCK_BELOW = 0.9
# Figures of GPUs, and notes on them, need this many answers of nvidia-smi.
_LEAST_ANSWERS = 2
_GPU_BUSY_BELOW = _GPU_CLOCK_BELOW = 0.9
# /proc/stat counts ticks of 10 ms.
_LEAST_SECONDS = 1.5
# Two heartbeats; the amounts of shorter spans are those of a tick.
_COUNTED_SECONDS = 0.5


@dataclass(frozen=True, kw_only=True)
class ServerUse:
    """CPU time of a server since it started, in seconds.

    run_delay  seconds that its threads were ready to run and had no CPU; None if not counted
    """

    process: str
    cpu_seconds: float
    run_delay: float | None = None


@dataclass(frozen=True, kw_only=True)
class GpuUse:
    """Use of the job's GPUs on a host, by answers of nvidia-smi; None: not available.

    at           time of the last answer, by the host's clock
    answers      number of answers
    utilization  mean share of time that the GPUs were busy
    temperature  highest temperature, °C
    clock        lowest SM clock, as a share of the GPU's maximum
    """

    at: float
    answers: int = 1
    utilization: float | None = None
    temperature: float | None = None
    clock: float | None = None


@dataclass(frozen=True, kw_only=True)
class MachineCounters:
    """Counters of a machine as its agent read them at `at`, by the host's clock.

    machine       id of the machine: several agents may run on one
    cores         number of processors
    busy          processor seconds of all programs and the kernel
    `ours`        processor seconds of the agent and its child processes
    stolen        processor seconds that the hypervisor gave to other guests
    swapped       bytes moved to and from swap
    throttled     number of thermal throttling events
    clock         GHz of the fastest of the job's cores at that time; 0 if not available
    network       bytes in and out by interface
    retransmits   TCP segments sent again
    servers       the job's servers on this host
    gpu_programs  pids of other programs on its GPUs
    gpus          use of the job's GPUs; in a span at the end, over the span; None without GPUs
    energy        joules by source (rapl, gpu), or the reason why not available
    """

    at: float
    machine: str
    cores: int
    busy: float
    ours: float
    stolen: float = 0.0
    swapped: int = 0
    throttled: int = 0
    clock: float = 0.0
    network: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    retransmits: int = 0
    servers: tuple[ServerUse, ...] = ()
    gpu_programs: tuple[int, ...] = ()
    gpus: GpuUse | None = None
    energy: dict[str, float | str] = field(default_factory=dict)


# Counters at the begin and the end of measuring.
Span = tuple[MachineCounters, MachineCounters]


@dataclass(frozen=True, kw_only=True)
class Amounts:
    """Amounts of interference on a machine in `seconds`.

    others     CPU seconds of programs that are not the job's
    stolen     CPU seconds that the hypervisor gave to other guests
    swapped    bytes moved to and from swap
    throttled  thermal throttling events
    """

    seconds: float
    others: float
    stolen: float
    swapped: int
    throttled: int


def gpu_use(beat: Mapping[str, Any], gpus: Set[str]) -> GpuUse | None:
    """Return the use of these GPUs by a heartbeat.

    None without an answer of nvidia-smi; a figure that one GPU lacks is None.
    """
    if "gpu_at" not in beat:
        return None

    def figure(name: str, pick: Callable[[list[float]], float]) -> float | None:
        found = beat.get(name, {})
        return pick([found[gpu] for gpu in gpus]) if gpus <= found.keys() else None

    return GpuUse(
        at=beat["gpu_at"],
        utilization=figure("gpu", fmean),
        temperature=figure("gpu_temperature", max),
        clock=figure("gpu_clock", min),
    )


def extended(span: Span | None, counted: MachineCounters) -> Span:
    """Return the span until `counted`, with the use of GPUs by the answers within it."""
    if span is None:
        begin = replace(counted, gpus=None)  # the answer is of the time before
        return begin, begin
    begin, end = span
    return begin, replace(counted, gpus=_joined(begin.at, end.gpus, counted.gpus))


def _joined(begin: float, known: GpuUse | None, last: GpuUse | None) -> GpuUse | None:
    """Return the use by all answers since the begin.

    Heartbeats repeat the last answer.
    """
    if last is None:
        return None
    if last.at <= (known.at if known else begin):
        return known
    if known is None:
        return last
    answers = known.answers + 1
    return GpuUse(
        at=last.at,
        answers=answers,
        utilization=_both(
            lambda mean, one: mean + (one - mean) / answers, known.utilization, last.utilization
        ),
        temperature=_both(max, known.temperature, last.temperature),
        clock=_both(min, known.clock, last.clock),
    )


def _both(
    pick: Callable[[float, float], float], known: float | None, last: float | None
) -> float | None:
    return None if known is None or last is None else pick(known, last)


def gpu_notes(spans: Mapping[str, Span]) -> list[Note]:
    """Return the notes on GPUs of a job that trains."""
    found = []
    for host, (_, end) in spans.items():
        use = _measured(end.gpus)
        if use and use.utilization is not None and use.utilization < _GPU_BUSY_BELOW:
            figures = {"share": use.utilization}
            found.append(Note(NoteKind.LOW_GPU_UTILIZATION, figures, {"host": host}))
        if use and use.clock is not None and use.clock < _GPU_CLOCK_BELOW:
            figures = {"share": use.clock}
            if use.temperature is not None:
                figures["temperature"] = use.temperature
            found.append(Note(NoteKind.LOW_GPU_CLOCK, figures, {"host": host}))
    return found


def _measured(use: GpuUse | None) -> GpuUse | None:
    return use if use and use.answers >= _LEAST_ANSWERS else None


def amounts(spans: Sequence[Span]) -> Amounts:
    """Return the amounts on one machine; each span is of one of its agents."""
    begin, end = spans[0]
    seconds = end.at - begin.at
    ours = sum((last.ours - first.ours) / (last.at - first.at) for first, last in spans)
    return Amounts(
        seconds=seconds,
        others=max(0.0, end.busy - begin.busy - ours * seconds),
        stolen=end.stolen - begin.stolen,
        swapped=end.swapped - begin.swapped,
        throttled=end.throttled - begin.throttled,
    )


def _by_machine(spans: Mapping[str, Span], least_seconds: float) -> list[dict[str, Span]]:
    """Return the spans of at least these seconds by host, grouped by machine."""
    machines: dict[str, dict[str, Span]] = {}
    for host, span in spans.items():
        if span[1].at - span[0].at >= least_seconds:
            machines.setdefault(span[0].machine, {})[host] = span
    return list(machines.values())


def interference(spans: Mapping[str, Span]) -> list[Note]:
    """Return the notes on interference; `spans` has the counters of each host."""
    found = []
    for hosts in _by_machine(spans, _LEAST_SECONDS):
        scope = {"hosts": list(hosts)} if len(hosts) > 1 else {"host": next(iter(hosts))}
        notes = _of_machine(list(hosts.values()))
        found += [Note(kind, figures, scope) for kind, figures in notes]
    return found


def machine_values(spans: Mapping[str, Span]) -> dict[str, list[dict[str, Any]]]:
    """Return the counters of each host as JSON for the record.

    The last counters have the amounts of interference.
    """
    found = {host: [_values(one, _busiest(span)) for one in span] for host, span in spans.items()}
    for hosts in _by_machine(spans, _COUNTED_SECONDS):
        shared = asdict(amounts(list(hosts.values())))
        for host in hosts:
            found[host][-1]["interference"] = shared
    return found


def _values(counted: MachineCounters, interface: str) -> dict[str, Any]:
    values = asdict(counted)
    use = _measured(counted.gpus)
    values["gpus"] = use and _present(asdict(use))
    values["servers"] = [_present(asdict(one)) for one in counted.servers]
    moved = counted.network.get(interface)
    values["network"] = moved and dict(
        zip(("interface", "bytes_in", "bytes_out"), (interface, *moved), strict=True)
    )
    return _present(values) | {"gpu_programs": list(counted.gpu_programs)}


def _present(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that are available."""
    return {name: value for name, value in values.items() if value is not None and value != []}


def _busiest(span: Span) -> str:
    """Return the interface that moved most bytes; '' without one at both ends."""
    before, after = span[0].network, span[1].network
    moved = {name: sum(after[name]) - sum(before[name]) for name in after if name in before}
    return max(moved, key=lambda name: moved[name], default="")


def _of_machine(spans: Sequence[Span]) -> Iterator[tuple[NoteKind, dict[str, Any]]]:
    """Yield the notes on one machine; each span is of one of its agents."""
    begin, end = spans[0]
    found, cores = amounts(spans), end.cores
    others, stolen = found.others / found.seconds, found.stolen / found.seconds
    if others > OTHERS_SHARE * cores:
        yield NoteKind.OTHER_PROGRAMS, {"cores": others, "of": cores}
    if stolen > _STOLEN_ABOVE * cores:
        yield NoteKind.STOLEN, {"share": stolen / max(1, cores)}
    if found.swapped > _SWAPPED_ABOVE:
        yield NoteKind.SWAPPED, {"mib": found.swapped / (1 << 20)}
    if found.throttled > 0:
        yield NoteKind.THROTTLED, {"count": found.throttled}
    if end.clock and end.clock < _CLOCK_BELOW * begin.clock:
        yield NoteKind.CLOCK_FELL, {"before": begin.clock, "after": end.clock}
    programs = sorted(
        {pid for first, last in spans for pid in (*first.gpu_programs, *last.gpu_programs)}
    )
    if programs:
        yield NoteKind.GPU_PROGRAMS, {"pids": programs}
