"""Power of a point's machines during the measurement. Pure."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from results.record import amount, grouped
from results.repeat import RepeatSummary

# Energy sources, and the shortest time in seconds that gives their power: agents send a heartbeat
# every second and query GPUs every 2 s. The heartbeats in 10 s are at least 7.5 s apart.
SOURCES = {"gpu": "GPUs (nvidia-smi)", "rapl": "processors and memory (RAPL)"}
_LEAST_SECONDS = {"gpu": 7.5, "rapl": 1.5}
_OLD = "measured by a version that recorded no energy"
_ODD = "the recorded energy is damaged"
_FOREIGN = "not measured by mxscale"
_REHEARSED = "a simulation does not train"
# Reasons in records of older versions, and their present words.
_REWORDED = {
    "no RAPL there, as on virtual machines": "no RAPL counters; common on VMs",
    "RAPL may be read by root alone there (permission denied)": (
        "only root can read the RAPL counters (permission denied)"
    ),
}
Span = Sequence[Mapping[str, Any]]


def power(one: RepeatSummary) -> dict[str, float] | str:
    """Return watts by source over all machines; or the reason for none.

    A machine counts once, even with several of the point's hosts on it, and as a whole, even if
    the point used a part of it. GPU points need the watts of GPUs, others those of processors.
    """
    if one.trial.scripted:
        return _REHEARSED
    hosts = one.identity.hosts
    if (one.source and not one.trial.reported) or not hosts:
        return _FOREIGN
    if lacking := [host for host in hosts if host not in one.machines]:
        return "measured too briefly to read energy counters" + _whose(lacking, hosts)
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
    """Return whether these are two readings, each with its machine and time."""
    return len(counts) == len(("begin", "end")) and all(
        isinstance(one, dict)
        and isinstance(one.get("machine"), str)
        and amount(one.get("at")) is not None
        and isinstance(one.get("energy", {}), dict | None)
        for one in counts
    )


def _all_watts(spans: Mapping[str, Span], source: str) -> float | str:
    """Return the total watts of this source, or the reason if a machine has none."""
    found = {host: _watts(span, source) for host, span in spans.items()}
    whys = grouped((why, host) for host, why in found.items() if isinstance(why, str))
    if whys:
        return "; ".join(why + _whose(hosts, spans) for why, hosts in whys.items())
    return math.fsum(watts for watts in found.values() if isinstance(watts, float))


def _watts(span: Span, source: str) -> float | str:
    begin, end = ((count.get("energy") or {}).get(source, _OLD) for count in span)
    for joules in (begin, end):
        if isinstance(joules, str):
            return _REWORDED.get(joules, joules)
        if amount(joules) is None:
            return _ODD
    seconds = float(span[1]["at"] - span[0]["at"])
    least = _LEAST_SECONDS[source]
    if seconds < least:
        # Without the seconds of the point: points with the same reason share one line.
        return f"measured too briefly: energy readings are less than {least:g} s apart"
    used = float(end - begin)
    return used / seconds if used > 0 else "the energy counter did not advance"


def _whose(hosts: Sequence[str], all_hosts: Collection[str]) -> str:
    """Return ' (node03 and 2 more)', or '' if all hosts are concerned."""

    if len(hosts) == len(all_hosts):
        return ""
    return f" ({hosts[0]})" if len(hosts) == 1 else f" ({hosts[0]} and {len(hosts) - 1} more)"
