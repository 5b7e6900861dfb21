"""One Chrome trace of all ranks, from the profiles that their workers wrote.

The files come from hosts, so only known fields of known events are copied.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from bench.errors import brief, error_line, quoted
from im2rec_tools.terminal import one_line
from results.errors import StoreError, store_errors
from results.store import atomic_file

Alignment = Literal["clock", "start"]
ALIGNMENTS: tuple[Alignment, ...] = ("clock", "start")
# Bytes of all files together; two batches of a small network have 0.3 MB.
LARGEST = 256 << 20
_FEWER = "Profile fewer batches: --profile-batches 10:12"
_FIX = "Give files that --profile-worker-suffix wrote"
_NAME = re.compile(r"rank(\d{1,6})_.*", re.ASCII | re.DOTALL)
# Begin, end, the same of asynchronous work with marks between, marks, counters.
_PHASES = ("B", "E", "b", "e", "n", "i", "C")
_MOST_LETTERS = 200
# Microseconds; browsers represent larger whole numbers inexactly.
_LATEST = 2**53
Event = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RankTrace:
    """The profile of one rank.

    host     name of its host; empty if the profile does not contain it
    devices  name of each device or domain, which MXNet writes as a process, by its id
    events   in the order of the file, with times in microseconds since 1970
    """

    rank: int
    host: str
    devices: dict[int | str, str]
    events: list[Event]

    @property
    def name(self) -> str:
        """The name of its process in the merged trace."""
        return f"worker rank {self.rank}" + (f" on {self.host}" if self.host else "")

    @property
    def start(self) -> float:
        """Time of the first event."""
        return float(min(event["ts"] for event in self.events))

    @property
    def end(self) -> float:
        """Time of the last event."""
        return float(max(event["ts"] for event in self.events))


def read(paths: Sequence[Path], largest: int = LARGEST) -> list[RankTrace]:
    """Read the profiles of a job, ordered by rank; the rank is part of a file's name.

    Raises StoreError if one is invalid, or if they have more than `largest` bytes together.
    """
    found: dict[int, RankTrace] = {}
    left = largest
    for path in paths:
        with store_errors(path, "read"), path.open("rb") as file:
            content = file.read(left + 1)
        left -= len(content)
        if left < 0:
            wanted = f"at most {largest} bytes in the files together"
            raise StoreError(error_line(path, expected=wanted, got="more", fix=_FEWER))
        trace = parse(content, path)
        if trace.rank in found:
            fix = "Give the files of one job"
            got = f"rank {trace.rank} twice"
            raise StoreError(error_line(path, expected="each rank once", got=got, fix=fix))
        found[trace.rank] = trace
    return [found[rank] for rank in sorted(found)]


def parse(content: bytes, path: Path) -> RankTrace:
    """Parse the profile of a rank.

    Raises StoreError if it is no JSON, has another structure, or has no events.
    """
    named = _NAME.fullmatch(path.name)
    if not named:
        raise _invalid(path, "a name such as rank0_w.json", quoted(path.name))
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        problem = f"not JSON: {brief(error)}"
        raise StoreError(error_line(path, problem=problem, fix=_FIX)) from None
    listed = values.get("traceEvents") if isinstance(values, dict) else None
    if not isinstance(listed, list):
        got = "none" if listed is None else quoted(listed)
        raise _invalid(path, "an object with the list traceEvents", got)
    for number, event in enumerate(listed):
        if not _is_event(event):
            raise _invalid(f"{path}: traceEvents[{number}]", "an event", quoted(event))
    timed = [event for event in listed if event["ph"] != "M"]
    if not timed:
        fix = "Profile batches that the job trains: --profile-batches 1:2"
        raise StoreError(error_line(path, expected="at least one event", got="none", fix=fix))
    origin = values.get("otherData")
    host = origin.get("host", "") if isinstance(origin, dict) else ""
    return RankTrace(
        rank=int(named[1]),
        host=_text(host),
        devices={
            event.get("pid", 0): _text(event["args"].get("name", ""))
            for event in listed
            if event.get("name") == "process_name" and isinstance(event.get("args"), dict)
        },
        events=timed,
    )


def _is_event(event: Any) -> bool:
    if not isinstance(event, dict) or not isinstance(event.get("name", ""), str):
        return False
    if not all(isinstance(event.get(key, 0), int | str) for key in ("pid", "tid", "id")):
        return False
    time = event.get("ts")
    is_timed = isinstance(time, int | float) and 0 <= time < _LATEST
    return event.get("ph") == "M" or (event.get("ph") in _PHASES and is_timed)


def _text(value: object) -> str:
    """Return a name of a file as one short line; empty if it is no text."""
    return one_line(value)[:_MOST_LETTERS] if isinstance(value, str) else ""


def _invalid(where: object, expected: str, got: str) -> StoreError:
    return StoreError(error_line(where, expected=expected, got=got, fix=_FIX))


def write(path: Path, traces: Sequence[RankTrace], align: Alignment) -> None:
    """Write one trace with a process per rank: its pid is the rank.

    Times begin at 0. With align "clock" they keep the differences of the hosts' clocks; with
    "start" each rank's first event has the time 0. Raises StoreError if `path` cannot be written.
    """
    with atomic_file(path, "--to") as file:
        file.write(b'{"displayTimeUnit": "ms", "traceEvents": [')
        between = b"\n"
        for event in merged(traces, align):
            file.write(between + json.dumps(event, allow_nan=False).encode())
            between = b",\n"
        file.write(b"\n]}\n")


def merged(traces: Sequence[RankTrace], align: Alignment) -> Iterator[Event]:
    """Yield the events of the merged trace, as `write` describes it."""
    first = min(trace.start for trace in traces)
    ids: dict[tuple[object, ...], int] = {}
    for trace in traces:
        yield _metadata(trace.rank, 0, "process_name", name=trace.name)
        yield _metadata(trace.rank, 0, "process_sort_index", sort_index=trace.rank)
        zero = trace.start if align == "start" else first
        threads: dict[tuple[object, ...], int] = {}
        for event in trace.events:
            process = event.get("pid", 0)
            key = (process, event.get("tid", 0))
            if key not in threads:
                threads[key] = len(threads) + 1
                label = f"{trace.devices.get(process, '')} thread {threads[key]}".strip()
                yield _metadata(trace.rank, threads[key], "thread_name", name=label)
            made = _copied(event) | {"ts": event["ts"] - zero}
            made |= {"pid": trace.rank, "tid": threads[key]}
            if "id" in event:  # equal ones of two ranks are different work
                made["id"] = ids.setdefault((trace.rank, process, event["id"]), len(ids) + 1)
            yield made


def _metadata(rank: int, thread: int, name: str, /, **args: object) -> Event:
    return {"ph": "M", "pid": rank, "tid": thread, "name": name, "args": args}


def _copied(event: Event) -> Event:
    """Return the phase, names and counter values of an event."""
    made: Event = {"ph": event["ph"], "name": _text(event.get("name", ""))}
    if category := _text(event.get("cat")):
        made["cat"] = category
    values = event.get("args")
    if event["ph"] == "C" and isinstance(values, dict):
        made["args"] = {_text(name): value for name, value in values.items() if _is_finite(value)}
    return made


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max
