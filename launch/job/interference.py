"""Interference from other programs during a measurement, by the machine counters.

Pure.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.notes import Note, NoteKind
from launch.remote.facts import OTHERS_SHARE

# A share of a machine's processor time.
_STOLEN_ABOVE = 0.01
_SWAPPED_ABOVE = 1 << 20
_CLOCK_BELOW = 0.9
# /proc/stat counts ticks of 10 ms.
_LEAST_SECONDS = 1.5


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
    gpu_programs  pids of other programs on its GPUs
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
    gpu_programs: tuple[int, ...] = ()
    energy: dict[str, float | str] = field(default_factory=dict)


# Counters at the begin and the end of measuring.
Span = tuple[MachineCounters, MachineCounters]


def interference(spans: Mapping[str, Span]) -> list[Note]:
    """Return the notes on interference; `spans` has the counters of each host."""
    machines: dict[str, dict[str, Span]] = {}
    for host, span in spans.items():
        if span[1].at - span[0].at >= _LEAST_SECONDS:
            machines.setdefault(span[0].machine, {})[host] = span
    found = []
    for hosts in machines.values():
        scope = {"hosts": list(hosts)} if len(hosts) > 1 else {"host": next(iter(hosts))}
        notes = _of_machine(list(hosts.values()))
        found += [Note(kind, figures, scope) for kind, figures in notes]
    return found


def span_values(span: Span) -> list[dict[str, Any]]:
    """Return a span as JSON for the record."""
    return [asdict(one) | {"gpu_programs": list(one.gpu_programs)} for one in span]


def _of_machine(spans: Sequence[Span]) -> Iterator[tuple[NoteKind, dict[str, Any]]]:
    """Yield the notes on one machine; each span is of one of its agents."""
    begin, end = spans[0]
    seconds, cores = end.at - begin.at, end.cores
    ours = sum((last.ours - first.ours) / (last.at - first.at) for first, last in spans)
    others = (end.busy - begin.busy) / seconds - ours
    stolen = (end.stolen - begin.stolen) / seconds
    swapped, throttled = end.swapped - begin.swapped, end.throttled - begin.throttled
    if others > OTHERS_SHARE * cores:
        yield NoteKind.OTHER_PROGRAMS, {"cores": others, "of": cores}
    if stolen > _STOLEN_ABOVE * cores:
        yield NoteKind.STOLEN, {"share": stolen / max(1, cores)}
    if swapped > _SWAPPED_ABOVE:
        yield NoteKind.SWAPPED, {"mib": swapped / (1 << 20)}
    if throttled > 0:
        yield NoteKind.THROTTLED, {"count": throttled}
    if end.clock and end.clock < _CLOCK_BELOW * begin.clock:
        yield NoteKind.CLOCK_FELL, {"before": begin.clock, "after": end.clock}
    programs = sorted(
        {pid for first, last in spans for pid in (*first.gpu_programs, *last.gpu_programs)}
    )
    if programs:
        yield NoteKind.GPU_PROGRAMS, {"pids": programs}
