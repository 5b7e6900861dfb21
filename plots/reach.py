"""How far a run scales, in words: its fastest points against one device, a host, a worker."""

from collections.abc import Iterator, Sequence

from plots.lines import drawable, lines, network
from plots.numbers import percent, ratio_of, significant, unsure
from results.rates import Ratio
from results.scaling import ScalingRow
from results.speedup import Against, Baseline

_MOST_NAMED = 4
_KINDS = {"cpu": ("CPU core", "CPU cores"), "gpu": ("GPU", "GPUs")}
_ANY = "device", "devices"


def unit(rows: Sequence[ScalingRow], count: int) -> str:
    """'GPUs', 'CPU core': what so many devices of these points are called."""
    kinds = {row.trial.device for row in rows}
    one, more = _KINDS.get(kinds.pop(), _ANY) if len(kinds) == 1 else _ANY
    return one if count == 1 else more


def size(row: ScalingRow) -> tuple[int, float]:
    """Its devices and its rate, by which a network's largest point is chosen."""
    return row.trial.devices, row.rate.images_per_second if row.rate else 0.0


def scales(rows: Sequence[ScalingRow], *, scripted: bool) -> Iterator[str]:
    """The fastest point of each network on its most devices, against one device.

    Emulated points claim nothing, nor do those whose interval is wider than their rate.
    """
    good = _claims(rows)
    if not good:
        # Of a rehearsal the first sentence says so.
        yield from ["No point says how fast anything is."] if rows and not scripted else []
        return
    tops = [_top(good, name) for name in dict.fromkeys(map(network, good))]
    yield f"{'As scripted, on' if scripted else 'On'} {_most(tops, rows)}: {_told(tops, good)}."
    if not any(row.shown for row in good) and len({row.trial.devices for row in good}) > 1:
        wanted = next((str(row.wanted) for row in rows if row.wanted), "")
        lacking = f"speed-up against {wanted}" if wanted else "baseline to be compared with"
        yield f"How far that scales cannot be said: no point has a {lacking}."


def _claims(rows: Sequence[ScalingRow]) -> list[ScalingRow]:
    good = drawable([row for row in rows if not row.emulated])
    return [row for row in good if row.rate and not unsure(ratio_of(row.rate))]


def _top(rows: Sequence[ScalingRow], name: str) -> ScalingRow:
    """A network's fastest point on the most devices."""
    return max((row for row in rows if network(row) == name), key=size)


def _most(tops: Sequence[ScalingRow], rows: Sequence[ScalingRow]) -> str:
    """'256 GPUs', and of what these are the most where there are points on more."""
    counts = {row.trial.devices for row in tops}
    if len(counts) > 1:
        return f"the most {unit(tops, 2)} of each network"
    (count,) = counts
    told = f"{'one' if count == 1 else count} {unit(tops, count)}"
    more = [row for row in rows if row.rate and row.trial.devices > count]
    which = "not emulated" if all(row.emulated for row in more) else "known well enough"
    return f"{told}, the most that are {which}" if more else told


def _told(tops: Sequence[ScalingRow], rows: Sequence[ScalingRow]) -> str:
    """Each network there, or the best and the worst of many; the first with its units."""
    alike = len({row.trial.devices for row in tops}) == 1
    if len(tops) <= _MOST_NAMED:
        return ", ".join([_reached(row, rows, alike, row is tops[0]) for row in tops])
    based = sorted((row for row in tops if _efficiency(row)), key=_efficiency, reverse=True)
    if not based:
        return f"{_reached(tops[0], rows, alike, True)}, and {len(tops) - 1} other networks"
    best, worst = (_reached(row, rows, alike, row is based[0]) for row in (based[0], based[-1]))
    return f"of {len(tops)} networks the best is {best}, the worst {worst}"


def _efficiency(row: ScalingRow) -> float:
    """As figures show it; 0 where it is not known, or so uncertain that it says nothing."""
    return 0.0 if row.shown is None or unsure(row.shown.efficiency) else row.shown.efficiency.value


def _reached(row: ScalingRow, rows: Sequence[ScalingRow], alike: bool, units: bool) -> str:
    """'alexnet 61938 images/s (53 ± 0.7 % of ideal against one GPU)', or without the units.

    Where networks do not end alike, each says on how many devices.
    """
    rate = row.rate.images_per_second if row.rate else 0.0
    text = f"{network(row)}{_which(row, rows)} {significant(rate)}{' images/s' if units else ''}"
    text += "" if alike else f" on {row.trial.devices}"
    shown = row.shown
    if not shown or row.trial.devices == shown.baseline.devices or not _efficiency(row):
        return text
    against = str(row.wanted or f"one {unit([row], 1)}")
    of = f" of ideal against {against}" if units else ""
    return f"{text} ({percent(shown.efficiency)}{of})"


def _which(row: ScalingRow, rows: Sequence[ScalingRow]) -> str:
    """' (dist_sync)': what tells its line from others of its network, where there are any."""
    own = lines([one for one in rows if network(one) == network(row)])
    (line,) = (one for one in own if any(row is member for member in one.rows))
    return "" if line.alone else f" ({line.what})"


def against_others(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """The efficiency of each network's largest point against a host and a worker, or its range."""
    good = _claims(rows)
    host = _efficiencies(good, [row.host for row in good])
    worker = _efficiencies(good, [row.worker for row in good])
    told = [f"one full host {_spread(host)}"] if host else []
    told += [f"one worker through the same store {_spread(worker)}"] if worker else []
    if told:
        yield f"Against {'; against '.join(told)} of ideal."


def _efficiencies(rows: Sequence[ScalingRow], bases: Sequence[Against | None]) -> list[Ratio]:
    """Of each network's largest point that has such a base and is not it."""
    found: dict[str, tuple[ScalingRow, Ratio]] = {}
    for row, against in zip(rows, bases, strict=True):
        if against is None or _is_base(row, against) or unsure(against.efficiency):
            continue
        if network(row) not in found or size(row) > size(found[network(row)][0]):
            found[network(row)] = row, against.efficiency
    return [efficiency for _, efficiency in found.values()]


def _spread(efficiencies: Sequence[Ratio]) -> str:
    """'91 to 97 %'; of one network with its interval."""
    if len(efficiencies) == 1:
        return percent(efficiencies[0])
    ends = [f"{100 * end(one.value for one in efficiencies):.0f}" for end in (min, max)]
    return f"{' to '.join(dict.fromkeys(ends))} %"


def _is_base(row: ScalingRow, against: Against) -> bool:
    trial = row.trial
    return against.baseline == Baseline(kvstore=trial.kvstore, devices=trial.devices)
