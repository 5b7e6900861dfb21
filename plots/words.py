"""A run in one paragraph: what was measured, how far it scales, what to doubt."""

from collections.abc import Iterator, Sequence

from bench.kvstores import is_distributed
from plots.doubts import doubts
from plots.footer import machine
from plots.lines import TRAINING, drawable, lines, network
from plots.numbers import percent, significant, times
from results.run import Run
from results.scaling import Against, ScalingRow

_MOST_NAMED = 4
_KINDS = {"cpu": ("CPU core", "CPU cores"), "gpu": ("GPU", "GPUs")}


def paragraph(run: Run) -> str:
    """What a stranger reads first; about six sentences, however many points there are."""
    trained = [row for row in run.rows if row.trial.mode in TRAINING]
    sentences = [
        *_caution(run),
        *([_trained(run, trained)] if trained else []),
        *_besides(run.rows),
        *_scales(run, trained),
        *doubts(run),
    ]
    return " ".join(sentences)


def enumeration(words: Sequence[str], most: int = 99) -> str:
    """'a, b and c'; beyond `most` words only their number is told: 'a, b and 5 more'."""
    if len(words) > most:
        words = [*words[: most - 1], f"{len(words) - most + 1} more"]
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _caution(run: Run) -> Iterator[str]:
    """What comes before everything else: these are not measurements, or not ours."""
    if run.rehearsal:
        yield (
            "This is a rehearsal: the fake engine played scripted times, nothing was trained, and "
            "no figure here says how fast anything is."
        )
    sources = dict.fromkeys(one.source for row in run.rows for one in row.repeats if one.source)
    if sources:
        whole = all(one.source for row in run.rows for one in row.repeats)
        which = "These figures were" if whole else "Some of these figures were"
        yield f"{which} not measured by mxscale: {enumeration(list(sources), 2)}."


def _trained(run: Run, rows: Sequence[ScalingRow]) -> str:
    """What was asked for: networks, data, devices, hosts, stores, batches, when and on what."""
    verb = "Played" if run.rehearsal else "Trained"
    names = sorted({row.trial.kvstore for row in rows}, key=lambda one: (is_distributed(one), one))
    kvstores = enumeration(names, _MOST_NAMED)
    day = str(run.environment.get("date", ""))[:10]
    on = "" if run.rehearsal else machine(run.environment)
    return (
        f"{verb} {_networks(rows)} on {_devices(rows)} of {_hosts(rows)}, through kvstore "
        f"{kvstores}, with {_batches(rows)}: {_points(rows)}{f', on {day}' if day else ''}"
        f"{f' ({on})' if on else ''}."
    )


def _points(rows: Sequence[ScalingRow]) -> str:
    """'27 points, each run 3 times'."""
    repeats = sorted({row.rate.repeats for row in rows if row.rate})
    if not repeats:
        return "one point" if len(rows) == 1 else f"{len(rows)} points"
    count = _range(repeats)
    often = {"1": "once", "2": "twice"}.get(count, f"{count} times")
    if len(rows) == 1:
        return f"one point, run {often}"
    return f"{len(rows)} points, each run {often}"


def _networks(rows: Sequence[ScalingRow]) -> str:
    found = []
    for mode, data in (("synthetic", "synthetic images"), ("real", "real images")):
        names = list(dict.fromkeys(row.trial.label for row in rows if row.trial.mode == mode))
        if names:
            found.append(f"{enumeration(names, _MOST_NAMED)} with {data}")
    return ", and ".join(found) + ("," if len(found) > 1 else "")


def _devices(rows: Sequence[ScalingRow]) -> str:
    counts = sorted({row.trial.devices for row in rows})
    kinds = [_KINDS.get(kind, (kind, kind)) for kind in {row.trial.device for row in rows}]
    unit = kinds[0][counts[-1] > 1] if len(kinds) == 1 else "devices"
    return f"{enumeration([str(n) for n in counts]) if len(counts) < 3 else _range(counts)} {unit}"


def _hosts(rows: Sequence[ScalingRow]) -> str:
    hosts = sorted({row.trial.hosts for row in rows})
    return "one host" if hosts == [1] else f"{_range(hosts)} hosts"


def _range(values: Sequence[int]) -> str:
    return f"{values[0]} to {values[-1]}" if len(values) > 1 else f"{values[0]}"


def _batches(rows: Sequence[ScalingRow]) -> str:
    fixed = sorted({row.trial.global_batch_fixed for row in rows})
    if fixed[0]:
        return f"{_range(fixed)} images a step of the whole job"
    ordered = sorted(rows, key=lambda row: row.trial.mode == "real")  # as the networks are told
    each = {network(row): row.trial.device_batch for row in ordered}
    alike = all(row.trial.device_batch == each[network(row)] for row in rows)
    values = sorted({row.trial.device_batch for row in rows})
    if len(values) == 1 or not alike or len(each) > _MOST_NAMED:
        return f"{_range(values)} {'image' if values == [1] else 'images'} a step on each device"
    told = enumeration([str(batch) for batch in each.values()])
    return f"{told} images a step on each device, in that order"


def _besides(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """What was measured that is no training."""
    read = [row.rate.images_per_second for row in rows if row.trial.mode == "test-io" and row.rate]
    if read:
        yield f"Reading alone, with nothing to train, reached {significant(max(read))} images/s."
    moved = [row for row in rows if row.trial.mode == "bandwidth" and row.rate]
    if moved:
        most = max(moved, key=_size)
        yield f"Of the bytes that a store moves, {most.trial.name}: {most.message}."


def _scales(run: Run, rows: Sequence[ScalingRow]) -> Iterator[str]:
    """The most devices of each network against each base; emulated points claim nothing."""
    good = drawable([row for row in rows if not row.emulated])
    if not good:
        yield from ["No point says how fast anything is."] if rows else []
        return
    tops = [_top(good, name) for name in dict.fromkeys(map(network, good))]
    on = "As scripted, on" if run.rehearsal else "On"
    what = "that are not emulated" if any(r.rate and r.emulated for r in rows) else "measured"
    yield f"{on} {_most(tops, what)}: {_at_the_top(tops, good)}."
    against = list(filter(None, (_against(good, "host"), _against(good, "worker"))))
    if against:
        yield f"Against {'; against '.join(against)}."
    if not any(row.device for row in good) and len({row.trial.devices for row in good}) > 1:
        yield "How far that scales cannot be said: no point on one device has a number."


def _top(rows: Sequence[ScalingRow], name: str) -> ScalingRow:
    """A network's fastest point on the most devices."""
    return max((row for row in rows if network(row) == name), key=_size)


def _size(row: ScalingRow) -> tuple[int, float]:
    return row.trial.devices, row.rate.images_per_second if row.rate else 0.0


def _most(tops: Sequence[ScalingRow], what: str) -> str:
    counts = {row.trial.devices for row in tops}
    if len(counts) > 1:
        return f"the most devices {what}"
    (count,) = counts
    return f"{count} devices, the most {what}" if count > 1 else "one device"


def _at_the_top(tops: Sequence[ScalingRow], rows: Sequence[ScalingRow]) -> str:
    """Each network there, or the best and the worst of many."""
    if len(tops) <= _MOST_NAMED:
        return "; ".join(_reached(row, rows) for row in tops)
    based = sorted((row for row in tops if row.device), key=_efficiency, reverse=True)
    if based:
        best, worst = _reached(based[0], rows), _reached(based[-1], rows)
        return f"of {len(tops)} networks the best is {best}, the worst {worst}"
    return f"{_reached(tops[0], rows)}, and {len(tops) - 1} other networks"


def _efficiency(row: ScalingRow) -> float:
    return row.device.efficiency.value if row.device else 0.0


def _reached(row: ScalingRow, rows: Sequence[ScalingRow]) -> str:
    """'alexnet 61938 images/s, 135.5 times one device (53 % of ideal)'."""
    rate = row.rate.images_per_second if row.rate else 0.0
    text = f"{network(row)} {significant(rate)} images/s"
    tops = [_top(rows, name) for name in dict.fromkeys(map(network, rows))]
    text += f" on {row.trial.devices}" if len({top.trial.devices for top in tops}) > 1 else ""
    text += _which(row, rows)
    if not row.device or row.trial.devices == 1:
        return text
    return (
        f"{text}, {times(row.device.speedup)} times one device "
        f"({percent(row.device.efficiency)} of ideal)"
    )


def _which(row: ScalingRow, rows: Sequence[ScalingRow]) -> str:
    """' (dist_sync)': what tells its line from others of its network, where there are any."""
    of_it = [line for line in lines(rows) if any(row is one for one in line.rows)]
    return "" if of_it[0].alone else f" ({of_it[0].what})"


def _against(rows: Sequence[ScalingRow], name: str) -> str:
    """'one full host (device on 16 devices) the efficiency is 91 % (alexnet), ...'."""
    found: dict[str, tuple[ScalingRow, Against]] = {}
    for row in sorted(rows, key=_size):
        against: Against | None = getattr(row, name)
        if against and not _is_base(row, against):
            found[network(row)] = row, against
    if not found:
        return ""
    ordered = [found[one] for one in dict.fromkeys(map(network, rows)) if one in found]
    if len(ordered) > _MOST_NAMED:
        ordered = sorted(ordered, key=lambda one: one[1].efficiency.value)
        ordered = [ordered[0], ordered[-1]]
    several = len({network(row) for row in rows}) > 1
    told = [
        percent(against.efficiency) + (f" ({network(row)})" if several else "")
        for row, against in ordered
    ]
    between = " to " if len(found) > _MOST_NAMED else ", "
    bases = {against.base for _, against in found.values()}
    base = f" ({bases.pop()})" if len(bases) == 1 else ""
    what = f"one full host{base}" if name == "host" else "one worker through the same store"
    return f"{what} the efficiency is {between.join(told)}"


def _is_base(row: ScalingRow, against: Against) -> bool:
    plural = "s" if row.trial.devices > 1 else ""
    return against.base == f"{row.trial.kvstore} on {row.trial.devices} device{plural}"
