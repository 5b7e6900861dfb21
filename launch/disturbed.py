"""Whether others disturbed a measurement, by what its machines counted meanwhile. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from results.record import DISTURBED

# Shares of a machine's processor time. A master and its screen stay below the first.
_OTHERS_ABOVE, _STOLEN_ABOVE = 0.1, 0.01
_SWAPPED_ABOVE = 1 << 20
_CLOCK_BELOW = 0.9
# /proc/stat counts ticks of 10 ms.
_LEAST_SECONDS = 1.5


@dataclass(frozen=True, kw_only=True)
class Counted:
    """What an agent counted on its machine until `at`, a time of the host's clock.

    machine       which machine this is: several agents may count on one
    cores         processors that it has
    busy          processor seconds in which any program or the kernel ran
    ours          processor seconds of the agent and of all that it started
    stolen        processor seconds that a hypervisor gave to others
    swapped       bytes to and from swap
    throttled     how often a processor was slowed for heat
    clock         of the fastest of the job's cores, in GHz, then; 0 where it is not known
    gpu_programs  pids on its GPUs that are not ours
    energy        joules by source, rapl and gpu, since a time of the agent's, or why not known
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


# As measuring began and ended.
Span = tuple[Counted, Counted]


def disturbances(spans: Mapping[str, Span]) -> list[str]:
    """What a reader of the numbers should know, in words, by host; spans are by host too."""
    machines: dict[str, dict[str, Span]] = {}
    for host, span in spans.items():
        if span[1].at - span[0].at >= _LEAST_SECONDS:
            machines.setdefault(span[0].machine, {})[host] = span
    found = []
    for hosts in machines.values():
        said = _of_machine(list(hosts.values()))
        found += [f"{_named(list(hosts))}: {one} {DISTURBED}" for one in said]
    return found


def kept(span: Span) -> list[dict[str, Any]]:
    """A span as records keep it."""
    return [asdict(one) | {"gpu_programs": list(one.gpu_programs)} for one in span]


def _named(hosts: Sequence[str]) -> str:
    return hosts[0] if len(hosts) == 1 else f"{hosts[0]} and {len(hosts) - 1} more on its machine"


def _of_machine(spans: Sequence[Span]) -> list[str]:
    """Of one machine; each span is of one of the agents on it."""
    begin, end = spans[0]
    seconds, cores = end.at - begin.at, end.cores
    ours = sum((last.ours - first.ours) / (last.at - first.at) for first, last in spans)
    others = (end.busy - begin.busy) / seconds - ours
    stolen = (end.stolen - begin.stolen) / seconds
    swapped, throttled = end.swapped - begin.swapped, end.throttled - begin.throttled
    said = []
    if others > _OTHERS_ABOVE * cores:
        said.append(f"other programs used {others:.1f} of its {cores} cores")
    if stolen > _STOLEN_ABOVE * cores:
        said.append(
            f"its hypervisor gave {100 * stolen / cores:.0f} % of its cores' time to others"
        )
    if swapped > _SWAPPED_ABOVE:
        said.append(f"it moved {swapped / (1 << 20):.0f} MiB to and from swap")
    if throttled > 0:
        said.append("its processors were slowed for heat")
    if end.clock and end.clock < _CLOCK_BELOW * begin.clock:
        said.append(f"its clock fell from {begin.clock:.1f} to {end.clock:.1f} GHz")
    programs = sorted(
        {pid for first, last in spans for pid in (*first.gpu_programs, *last.gpu_programs)}
    )
    if programs:
        said.append(f"other programs (processes {', '.join(map(str, programs))}) used its GPUs")
    return said
