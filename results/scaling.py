"""ScalingRow: one point of a sweep with its speed-up and efficiency against each base."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.kvstores import is_distributed
from bench.trial import FIELDS, Trial
from results.bandwidth import sentence
from results.conditions import differences
from results.measured import Measured, measured
from results.rates import Rate, Ratio, ratio, together
from results.record import Record


@dataclass(frozen=True, kw_only=True)
class Against:
    """A point against one base: `base` says in words which point that is."""

    base: str
    speedup: Ratio
    efficiency: Ratio


@dataclass(frozen=True, kw_only=True)
class ScalingRow:
    """All repeats of one trial.

    status      of the record that is not ok, else ok, or unstable: see `_settled`
    rate        None unless all its records are ok
    device      against one device (without servers where that was measured)
    host        against one full host; None for points smaller than that
    worker      against one worker through the same distributed store
    message     why it is not ok, or what a reader must know
    repeats     what each repeat's record says
    """

    trial: Trial
    status: str
    message: str
    rate: Rate | None
    emulated: bool
    repeats: tuple[Measured, ...] = ()
    device: Against | None = None
    host: Against | None = None
    worker: Against | None = None

    @property
    def accuracies(self) -> tuple[float, ...]:
        """Of each good repeat's last validation, where the trial trained on real data."""
        good = self.repeats if self.rate else ()
        return tuple(one.accuracy for one in good if one.accuracy is not None)

    @property
    def window_seconds(self) -> tuple[float, ...]:
        """Of every window that counts, of all repeats."""
        good = self.repeats if self.rate else ()
        return tuple(seconds for one in good for seconds, _ in one.steady_windows)

    @property
    def remark(self) -> str:
        """Why the point has no number, or what it reached besides one."""
        if not self.accuracies:
            return self.message
        least, most = min(self.accuracies), max(self.accuracies)
        reached = f"validation accuracy {sum(self.accuracies) / len(self.accuracies):.3f}"
        if least != most:
            reached += f" ({least:.3f} to {most:.3f} in {len(self.accuracies)} repeats)"
        return f"{reached}; {self.message}" if self.message else reached


@dataclass(frozen=True, kw_only=True)
class _Point:
    trial: Trial
    rate: Rate
    repeats: tuple[Measured, ...]

    @property
    def conditions(self) -> list[dict[str, str]]:
        return [one.conditions for one in self.repeats]


# A number that stands alone, not one of a host, a rank or a process.
AMOUNT = re.compile(r"(?<!\w)(?<!rank )(?<!processes )\d+(?:[.,]\d+)*(?= (?!on\b)|$)")
# Fields in which a point may differ from its base.
_SCALED = ("devices", "devices_per_worker", "devices_per_host", "kvstore")
_WINDOWS = ("warmup_windows", "windows", "precision", "budget_seconds")
_SERVERS = ("servers_per_host", "server_hosts", "gc_type", "gc_threshold")
_SCRIPTED = ("fake_seconds", "fake_faults")
_SAME = tuple(name for name in FIELDS if name not in {*_SCALED, *_WINDOWS, *_SERVERS, *_SCRIPTED})


def _family(trial: Trial) -> tuple[Any, ...]:
    """What has to be the same in a point and its base, whatever servers they have."""
    return tuple(getattr(trial, name) for name in _SAME)


def _peers(trial: Trial, other: Trial) -> bool:
    """Whether two of a family may be each other's base.

    Where servers stand matters only if both have servers.
    """
    if not (is_distributed(trial.kvstore) and is_distributed(other.kvstore)):
        return True
    return all(getattr(trial, name) == getattr(other, name) for name in _SERVERS)


def _first(
    points: Sequence[_Point], fits: Callable[[Trial], bool], *, prefer_local: bool = True
) -> _Point | None:
    """The point that fits; of several, the one without servers first."""
    fitting = [point for point in points if fits(point.trial)]
    fitting.sort(key=lambda point: prefer_local and is_distributed(point.trial.kvstore))
    return fitting[0] if fitting else None


def _against(point: _Point, base: _Point | None) -> Against | None:
    if base is None:
        return None
    devices = base.trial.devices / point.trial.devices
    return Against(
        base=f"{base.trial.kvstore} on {base.trial.devices} device"
        + ("s" if base.trial.devices > 1 else ""),
        speedup=ratio(point.rate, base.rate),
        efficiency=ratio(point.rate, base.rate, devices),
    )


def _bases(point: _Point, points: Sequence[_Point]) -> dict[str, _Point | None]:
    """The points that it stands against, by the row's fields."""
    trial = point.trial
    if trial.mode in {"test-io", "bandwidth"}:
        return {}
    peers = [other for other in points if _peers(trial, other.trial)]
    if len({(peer.trial.devices, peer.trial.kvstore) for peer in peers}) == 1:
        return {}
    full = trial.devices_per_host
    host = _first(peers, lambda t: t.devices == full and t.worker_hosts == 1)
    one_worker = _first(
        peers,
        lambda t: (
            t.workers == 1 and (t.kvstore, t.devices) == (trial.kvstore, trial.devices_per_worker)
        ),
    )
    distributed = is_distributed(trial.kvstore)
    return {
        "device": _first(peers, lambda t: t.devices == 1),
        "host": host if trial.devices >= full else None,
        "worker": one_worker if distributed else None,
    }


def scaling(records: Sequence[Record]) -> list[ScalingRow]:
    """A row a trial, in the order of the records given; repeats are taken together."""
    return rows_of([measured(record) for record in records])


def rows_of(found: Sequence[Measured]) -> list[ScalingRow]:
    """A row a trial, in the order given; repeats are taken together.

    A repeat that is not ok makes its point not ok: a rate is never taken over what is left.
    """
    groups: dict[str, list[Measured]] = {}
    for one in found:
        groups.setdefault(one.identity.key, []).append(one)
    points = {
        key: _Point(
            trial=group[0].trial,
            rate=together([one.parts for one in group if one.parts]),
            repeats=tuple(group),
        )
        for key, group in groups.items()
        if all(one.parts for one in group)
    }
    families: dict[tuple[Any, ...], list[_Point]] = {}
    for point in points.values():
        families.setdefault(_family(point.trial), []).append(point)
    return [_row(group, points.get(key), families) for key, group in groups.items()]


def _row(
    group: Sequence[Measured],
    point: _Point | None,
    families: Mapping[tuple[Any, ...], Sequence[_Point]],
) -> ScalingRow:
    newest = group[-1]
    if point is None:
        bad = next(one for one in group if one.parts is None)
        return ScalingRow(
            trial=bad.trial,
            status=bad.status,
            message=bad.message,
            rate=None,
            emulated=bad.emulated,
            repeats=tuple(group),
        )
    bases = _bases(point, families[_family(point.trial)])
    return ScalingRow(
        trial=newest.trial,
        status="ok" if _settled(group) else "unstable",
        message="; ".join([*_moved(point), *_told(group), *_unlike(point, bases)]),
        rate=point.rate,
        emulated=newest.emulated,
        repeats=point.repeats,
        **{name: _against(point, base) for name, base in bases.items()},
    )


def _settled(group: Sequence[Measured]) -> bool:
    """Whether at least half of the repeats became steady, where a precision was to be reached."""
    unsteady = sum(bool(one.unsteady) for one in group)
    return not group[-1].trial.precision or 2 * unsteady <= len(group)


def _moved(point: _Point) -> list[str]:
    return [sentence(point.trial, point.rate)] if point.trial.mode == "bandwidth" else []


def _unlike(point: _Point, bases: dict[str, _Point | None]) -> Iterator[str]:
    """Says so where a point ran with other variables or instructions than a base of its, once."""
    if differing := differences(point.conditions):
        yield f"its repeats differ in {differing}"
        return
    for base in filter(None, bases.values()):
        if differing := differences([*point.conditions, *base.conditions]):
            yield f"it and its base {base.trial.name} differ in {differing}"
            return


def _told(group: Sequence[Measured]) -> Iterator[str]:
    """What its repeats have to say, each thing once; figures are those of the first that says it.

    Sentences that differ in their figures alone say the same thing.
    """
    said: dict[str, dict[int, str]] = {}
    for number, one in enumerate(group):
        source = one.source and f"not measured by mxscale: {one.source}"
        parts = [source, *one.message.split("; "), *one.told, one.unsteady]
        for part in filter(None, parts):
            said.setdefault(AMOUNT.sub("#", part), {}).setdefault(number, part)
    for sentences in (list(one.values()) for one in said.values()):
        alike = len(sentences) == len(group) and len(set(sentences)) == 1
        first = "" if len(set(sentences)) == 1 else ", the first is told"
        count = f" (in {len(sentences)} of {len(group)} repeats{first})"
        yield sentences[0] + ("" if alike else count)
