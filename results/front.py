"""Front: what stands before the ranks of a record, read without what was measured."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.errors import quoted
from bench.networks import describe
from results.errors import StoreError
from results.record import SCHEMA, STATUSES, Identity, identity_of
from results.run import wanted
from results.store import Unread, is_there

_RANKS = re.compile(rb',\s*"ranks":\s*\[')
_SOURCE = re.compile(rb'"source":\s*("(?:[^"\\]|\\.)*")')
_TAIL_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Front:
    """What stands before the ranks of a record, and where it comes from."""

    identity: Identity
    status: str
    message: str
    network: str
    rehearsal: bool
    source: str


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point of a run: how many of the repeats that were asked for are good, and what is not.

    status  ok, missing where some were not measured yet, or that of a repeat which is not ok
    """

    name: str
    key: str
    status: str
    message: str
    good: int
    repeats: int


def points(folder: Path, found: Iterable[Front | Unread]) -> list[Point]:
    """The points that were last asked for, in that order; all there are where none were."""
    newest = {one.identity: one for one in found if isinstance(one, Front)}
    groups: dict[str, list[Identity]] = {}
    for name in wanted(folder) or list(newest):
        groups.setdefault(name.key, []).append(name)
    return [
        _point(group, [newest[name] for name in group if name in newest])
        for group in groups.values()
    ]


def _point(asked: Sequence[Identity], found: Sequence[Front]) -> Point:
    bad = next((one for one in found if one.status != "ok"), None)
    lacks = "" if len(found) == len(asked) else "missing"
    return Point(
        name=asked[0].name,
        key=asked[0].key,
        status=bad.status if bad else lacks or "ok",
        message=bad.message if bad else "",
        good=sum(one.status == "ok" for one in found),
        repeats=len(asked),
    )


def fronts(folder: Path) -> Iterator[Front | Unread]:
    """The front of each record, oldest first, without torn lines, and which lines hold none."""
    log = folder / "records.jsonl"
    if not is_there(log):
        return
    try:
        with log.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    front = _front(line)
                except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
                    yield Unread(log=log, line=number, reason=str(error))
                    continue
                if front is not None:
                    yield front
    except OSError as error:
        raise StoreError(f"{log}: cannot be read ({error.strerror})") from error


def _front(line: bytes) -> Front | None:
    """None where the line is torn."""
    ranks = _RANKS.search(line)
    text = line[: ranks.start()] + b"}" if ranks and line.endswith(b"}\n") else line
    try:
        data = json.loads(text)
    except ValueError:
        return None
    if data["schema"] > SCHEMA:
        raise ValueError(f"schema {data['schema']}, written by a newer version of mxscale")
    trial = data["trial"]
    network, layers = trial["network"], trial["num_layers"]
    if not isinstance(network, str) or not isinstance(layers, int | None):
        raise TypeError(f"trial: network {quoted(network)}, num_layers {quoted(layers)}")
    if data["status"] not in STATUSES or not isinstance(data["message"], str):
        raise ValueError(f"status {quoted(data['status'])}, message {quoted(data['message'])}")
    sources = _SOURCE.findall(line[-_TAIL_BYTES:])
    return Front(
        identity=identity_of(data["identity"]),
        status=data["status"],
        message=data["message"],
        network="input" if trial["mode"] == "test-io" else describe(network, layers),
        rehearsal=trial["engine"] == "fake",
        source=json.loads(sources[-1]) if sources else "",
    )
