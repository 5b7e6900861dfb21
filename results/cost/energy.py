"""Power of a point's machines while it was measured. Pure."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from results.record import grouped
from results.repeat import RepeatSummary

# What is counted, by source, and the seconds it takes to tell its power: agents beat once a
# second, and ask GPUs every five.
SOURCES = {"gpu": "GPUs (nvidia-smi)", "rapl": "processors and memory (RAPL)"}
_LEAST_SECONDS = {"gpu": 10.0, "rapl": 1.5}
_OLD = "joules were not counted when it was measured"
_ODD = "what was counted on its machines is not as it is written"
_FOREIGN = "not measured by mxscale"
_REHEARSED = "a rehearsal does not train"
Span = Sequence[Mapping[str, Any]]


def power(one: RepeatSummary) -> dict[str, float] | str:
    """Watts by source while all workers measured, of all machines, or why they are not known.

    A machine counts once, however many hosts of the point are on it, and as a whole, whatever part
    of it the point used. Points on GPUs need the watts of GPUs, others those of processors.
    """
    if one.trial.engine == "fake":
        return _REHEARSED
    hosts = one.identity.hosts
    if one.source or not hosts:
        return _FOREIGN
    if lacking := [host for host in hosts if host not in one.machines]:
        return "measured too briefly to count joules" + _whose(lacking, hosts)
    spans = {host: one.machines[host] for host in hosts}
    if odd := [host for host, span in spans.items() if not _is_span(span)]:
        return _ODD + _whose(odd, hosts)
    machines = {span[1]["machine"] or host: host for host, span in spans.items()}
    spans = {host: spans[host] for host in machines.values()}
    needed = "gpu" if one.trial.layout.device == "gpu" else "rapl"
    found = {source: _all_watts(spans, source) for source in SOURCES}
    if isinstance(why := found[needed], str):
        return why
    return {source: watts for source, watts in found.items() if isinstance(watts, float)}


def _is_span(counts: Sequence[Any]) -> bool:
    """Whether these are two counts, each of a machine and with its time."""
    return len(counts) == len(("begin", "end")) and all(
        isinstance(one, dict)
        and isinstance(one.get("machine"), str)
        and isinstance(one.get("at"), int | float)
        and isinstance(one.get("energy", {}), dict | None)
        for one in counts
    )


def _all_watts(spans: Mapping[str, Span], source: str) -> float | str:
    """Of this source on all machines, or why it is not known of some."""
    found = {host: _watts(span, source) for host, span in spans.items()}
    whys = grouped((why, host) for host, why in found.items() if isinstance(why, str))
    if whys:
        return "; ".join(why + _whose(hosts, spans) for why, hosts in whys.items())
    return math.fsum(watts for watts in found.values() if isinstance(watts, float))


def _watts(span: Span, source: str) -> float | str:
    begin, end = ((count.get("energy") or {}).get(source, _OLD) for count in span)
    for joules in (begin, end):
        if isinstance(joules, str):
            return joules
        if not isinstance(joules, int | float) or not math.isfinite(joules):
            return _ODD
    seconds = float(span[1]["at"] - span[0]["at"])
    if seconds < _LEAST_SECONDS[source]:
        return f"{seconds:.1f} s are too few to tell joules"
    used = float(end - begin)
    return used / seconds if used > 0 else "its counter of joules stood still"


def _whose(hosts: Sequence[str], all_hosts: Collection[str]) -> str:
    """' (node03 and 2 more)'; nothing where it is all of them."""
    if len(hosts) == len(all_hosts):
        return ""
    return f" ({hosts[0]})" if len(hosts) == 1 else f" ({hosts[0]} and {len(hosts) - 1} more)"
