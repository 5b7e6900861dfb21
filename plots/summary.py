"""The summary of a run: scaling, measured points, missing results, caveats."""

import math
from collections.abc import Iterator, Sequence

from bench.notes import CONTRADICTED, UNSTEADY, Note, NoteKind, sentence
from plots.failed_repeats import earlier_items
from plots.figures.model import TRAINING, drawable, lines, network_label, scalable
from plots.format import (
    STATUS_WORDS,
    format_interval,
    format_percent,
    is_uninformative,
    list_names,
    significant,
)
from plots.items import Item, one_sentence, shortened
from plots.quality import quality_sentence
from results.quality import Quality
from results.rates import Ratio
from results.record import grouped, kept, kept_by_items
from results.repeat import TimeToAccuracy
from results.run import Run
from results.scaling import ScalingRow
from results.speedup import COLUMNS, baseline_of

_MOST_NAMED_SCALES = 4
_KINDS = {"cpu": ("CPU core", "CPU cores"), "gpu": ("GPU", "GPUs")}
_ANY = "device", "devices"
_MOST_NAMED_CAVEATS, _MOST_TEXTS = 3, 2
# If the lower CI end of an efficiency exceeds this, the efficiency is too good.
_ABOVE = 1.01
_MOST_NAMED = 4
# Sentences that a first screen has room for, and parts of each.
_MOST_KEYS, _MOST_KEY_PARTS = 5, 2
_UNCERTAIN = "too uncertain to use"
_POINT_KINDS = {"test-io": "input-pipeline", "bandwidth": "bandwidth"}


def device_noun(rows: Sequence[ScalingRow], count: int) -> str:
    """Return the noun for `count` devices of these points: 'GPUs', 'CPU core'."""
    kinds = {row.trial.layout.device for row in rows}
    one, more = _KINDS.get(kinds.pop(), _ANY) if len(kinds) == 1 else _ANY
    return one if count == 1 else more


def size(row: ScalingRow) -> tuple[int, float]:
    """Return device count and throughput, the sort key for a network's largest point."""
    return row.trial.layout.devices, row.rate.images_per_second if row.rate else 0.0


def largest_points(rows: Sequence[ScalingRow]) -> list[ScalingRow]:
    """Return each network's fastest point on the most devices.

    Skips oversubscribed points, points whose CI is wider than their throughput, and points whose
    throughput other times contradict.
    """
    return _largest(_reliable_rows(rows))


def _top_items(rows: Sequence[ScalingRow], *, scripted: bool) -> Iterator[Item]:
    """Yield each network's fastest point on the most devices, with its efficiency."""
    good = _reliable_rows(rows)
    tops = _largest(good)
    if not tops:
        return
    sizes = {(network_label(row), row.trial.layout.devices) for row in tops}
    rivals = [row for row in good if (network_label(row), row.trial.layout.devices) in sizes]
    real = "Highest throughput of each network on" if len(rivals) > len(tops) else "On"
    hidden = {
        (network_label(row), row.trial.layout.devices)
        for row in _undrawn([one for one in rows if not one.emulated])
    }
    if not sizes.isdisjoint(hidden):
        real = "Highest throughput of each network in the figure on"
    where = f"{'Scripted results on' if scripted else real} {_most_devices(tops, rows)}"
    yield Item(f"{where}{_ideal(tops)}", tuple(_network_texts(tops, good)))


def _undrawn(rows: Sequence[ScalingRow]) -> list[ScalingRow]:
    """Return the points that only the table has, because several settings vary."""
    drawn = set(map(id, drawable(rows)))
    return [row for row in scalable(rows) if id(row) not in drawn]


def _scaling_caveats(rows: Sequence[ScalingRow], *, scripted: bool) -> Iterator[Item]:
    """Yield the points left out of the networks' results, and why nothing scales."""
    good = _reliable_rows(rows)
    timed = [row for row in rows if _is_reached(row) and not row.emulated]
    # The first sentence of a simulated run already makes this claim.
    if len(timed) < len(rows) and not good and not scripted:
        other = "other " if timed else ""
        yield Item(f"No {other}point supports a performance claim.", caveat=True)
    yield from _left_out(rows, _largest(good))
    if (
        not any(row.shown_scaling for row in good)
        and len({row.trial.layout.devices for row in good}) > 1
    ):
        wanted = next((str(row.chosen_baseline) for row in rows if row.chosen_baseline), "")
        lacking = f"speed-up vs {wanted}" if wanted else "speed-up baseline"
        usable = "usable " * any(row.shown_scaling for row in rows)
        yield Item(f"Scaling is not available: no {usable}point has a {lacking}.", caveat=True)


def _is_reached(row: ScalingRow) -> bool:
    found = row.time_to_accuracy
    return bool(found and found.reached)


def _time_items(rows: Sequence[ScalingRow]) -> Iterator[Item]:
    """Yield the times to the stop accuracy, if a point has one; the shortest first."""
    found = [(row, one) for row in rows if (one := row.time_to_accuracy)]
    found.sort(key=lambda pair: (-pair[1].target, pair[1].seconds or math.inf))
    texts = [_time_text(*pair) for pair in found]
    if len(texts) == 1:
        yield Item(f"{texts[0]}.")
    elif texts:
        others = len(texts) - _MOST_NAMED
        more = (_counted(others, "other point"),) if others > 0 else ()
        yield Item("Time to accuracy", (*texts[:_MOST_NAMED], *more))


def _time_text(row: ScalingRow, found: TimeToAccuracy) -> str:
    """Return 'alexnet x2 exceeded accuracy 0.9 in 1 of 3 repeats, after 11.0 s'."""
    count, repeats = len(found.reached), _counted(found.repeats, "repeat")
    if found.seconds is None:
        return f"{row.name} did not exceed accuracy {found.target:g} in {repeats}"
    text = f"{row.name} exceeded accuracy {found.target:g} in {count} of {repeats}"
    text += f", after {significant(found.seconds)} s{' on average' * (count > 1)}"
    ends = found.interval
    return f"{text} (95 % CI {significant(ends[0])} to {significant(ends[1])} s)" if ends else text


@kept_by_items
def _reliable_rows(rows: Sequence[ScalingRow]) -> list[ScalingRow]:
    good = drawable([row for row in rows if not row.emulated])
    return [row for row in good if row.rate and not _fault(row)]


def _fault(row: ScalingRow) -> str:
    """Return why a measured point supports no claim; '' if it does."""
    if row.rate and is_uninformative(row.rate.ratio):
        return "as too uncertain"
    contradicted = not CONTRADICTED.isdisjoint(row.headline_kinds)
    return "as contradicted by the times of its lines" if contradicted else ""


def _left_out(rows: Sequence[ScalingRow], tops: Sequence[ScalingRow]) -> Iterator[Item]:
    """Yield the points as large as their network's top that support no claim.

    Also the largest ones of networks without a usable point.
    """
    good = drawable([row for row in rows if not row.emulated])
    largest = {network_label(row): row.trial.layout.devices for row in tops}
    unusable = [row for row in good if row.rate and _fault(row)]
    for row in unusable:
        largest.setdefault(network_label(row), max(_devices(unusable, network_label(row))))
    named = grouped(
        (_fault(row), f"{row.name} ({significant(row.rate.images_per_second)} images/s)")
        for row in unusable
        if row.rate and row.trial.layout.devices >= largest[network_label(row)]
    )
    for why, some in named.items():
        yield Item(f"Left out {why}: {_named(some)}.", caveat=True)


def _devices(rows: Sequence[ScalingRow], network: str) -> list[int]:
    return [row.trial.layout.devices for row in rows if network_label(row) == network]


def _largest(rows: Sequence[ScalingRow]) -> list[ScalingRow]:
    """Return each network's fastest point on the most devices."""
    networks = grouped((network_label(row), row) for row in rows)
    return [max(some, key=size) for some in networks.values()]


def _most_devices(tops: Sequence[ScalingRow], rows: Sequence[ScalingRow]) -> str:
    """Return '256 GPUs'; explains the choice if points on more devices were skipped."""
    counts = {row.trial.layout.devices for row in tops}
    if len(counts) > 1:
        return f"the most {device_noun(tops, 2)} of each network"
    (count,) = counts
    devices = f"{count} {device_noun(tops, count)}"
    more = [row for row in rows if row.rate and row.trial.layout.devices > count]
    which = (
        "that are not oversubscribed"
        if all(row.emulated for row in more)
        else "with a usable 95 % CI"
    )
    return f"{devices}, the most {which}" if more else devices


def _ideal(tops: Sequence[ScalingRow]) -> str:
    """Return what 100 % of ideal is, ' (ideal: 256 times the throughput of 1 GPU)'."""
    compared = [row for row in tops if is_compared(row)]
    if not compared:
        return ""
    chosen = compared[0].chosen_baseline
    if chosen:
        return f" (ideal: throughput of {chosen}, in proportion to the devices)"
    counts = {row.trial.layout.devices for row in compared}
    times = str(counts.pop()) if len(counts) == 1 else "n"
    return f" (ideal: {times} times the throughput of 1 {device_noun(compared, 1)})"


def is_compared(row: ScalingRow) -> bool:
    """Return whether the row has a meaningful efficiency vs another device count."""
    shown = row.shown_scaling
    return bool(shown and row.trial.layout.devices != shown.baseline.devices and _efficiency(row))


def _network_texts(tops: Sequence[ScalingRow], rows: Sequence[ScalingRow]) -> list[str]:
    """Return a text for every network, or for the best and the worst of many."""
    alike = len({row.trial.layout.devices for row in tops}) == 1
    if len(tops) <= _MOST_NAMED_SCALES:
        return [_network_text(row, rows, alike) for row in tops]
    based = sorted((row for row in tops if _efficiency(row)), key=_efficiency, reverse=True)
    if not based:
        return [_network_text(tops[0], rows, alike), f"{len(tops) - 1} other networks"]
    best, worst = (_network_text(row, rows, alike) for row in (based[0], based[-1]))
    return [f"best of {len(tops)} networks: {best}", f"worst: {worst}"]


def _efficiency(row: ScalingRow) -> float:
    """Return the efficiency that figures show; 0 if unknown or uninformative."""
    return (
        0.0
        if row.shown_scaling is None or is_uninformative(row.shown_scaling.efficiency)
        else row.shown_scaling.efficiency.value
    )


def _network_text(row: ScalingRow, rows: Sequence[ScalingRow], alike: bool) -> str:
    """Return 'alexnet (local) 22.9 images/s (95 % CI 18.5 - 28.4), 64 % of ideal'.

    If the networks' largest device counts differ (not `alike`), each gets its own.
    """
    text = _rate_text(row, rows)
    text += "" if alike else f" on {row.trial.layout.devices}"
    if not row.shown_scaling or not is_compared(row):
        return text
    return f"{text}, {format_percent(row.shown_scaling.efficiency)} of ideal"


def _rate_text(row: ScalingRow, rows: Sequence[ScalingRow]) -> str:
    """Return network, kvstore, other differences of its line, and throughput."""
    own = lines([one for one in rows if network_label(one) == network_label(row)])
    (line,) = (one for one in own if any(row is member for member in one.rows))
    what = row.trial.layout.kvstore if line.alone else line.what
    rate = row.rate
    text = f"{network_label(row)} ({what}) {significant(rate.images_per_second if rate else 0.0)}"
    known = rate and None not in (rate.low, rate.high)
    return f"{text} images/s{f' (95 % CI {format_interval(rate)})' if rate and known else ''}"


def baseline_sentence(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """Yield the largest points' efficiency vs 1 host and vs 1 worker, or its range."""
    good = _reliable_rows(rows)
    parts = []
    for name in ("host", "worker"):
        # Points that have this baseline and are not the baseline themselves.
        based = [
            row
            for row in good
            if (base := row.scalings.get(name))
            and base.baseline != baseline_of(row.trial)
            # On one host it only compares two kvstores.
            and (name != "host" or row.trial.worker_hosts > 1)
            and not is_uninformative(base.efficiency)
        ]
        if based:
            largest = _largest(based)
            found = [one.scalings[name].efficiency for one in largest]
            which = f" ({largest[0].name})" if len(largest) == 1 else ""
            parts.append(f"vs 1 {name}{which}: {_spread(found)}")
    if parts:
        yield f"Efficiency {'; '.join(parts)}."


def _spread(efficiencies: Sequence[Ratio]) -> str:
    """Return '91 to 97 %', or one network's value with its CI."""
    if len(efficiencies) == 1:
        return format_percent(efficiencies[0])
    ends = [f"{100 * end(one.value for one in efficiencies):.0f}" for end in (min, max)]
    return f"{' to '.join(dict.fromkeys(ends))} %"


def caveats(run: Run) -> Iterator[Item]:
    """Yield the missing results and baselines, then the caveats about the others."""
    lost = list(_missing(run))
    yield from (Item(one, caveat=True) for one in lost)
    unsure = [*_noted_points(run.rows), *_uncertain(run.rows), *_point_caveats(run.rows)]
    if unsure:
        marked = " (! marks a point in the table)" if any(r.has_caveats for r in run.rows) else ""
        yield Item(f"Caveats{marked}", tuple(unsure), caveat=True)
    elif not lost and all(row.quality is Quality.PUBLISHABLE for row in run.rows):
        yield Item("No caveats were found in the records.")


def _missing(run: Run) -> Iterator[str]:
    failed = [row for row in run.rows if row.rate is None]
    if failed:
        named = _named([f"{row.name} ({_failure(row)})" for row in failed])
        which = f"{len(failed)} of {_counted(len(run.rows), 'point')}"
        yield f"No result for {which}: {named}."
    if run.missing:
        total = len(run.missing) + sum(len(row.repeats) for row in run.rows)
        yield f"Not measured yet: {len(run.missing)} of {_counted(total, 'run')}."
    trained = [row for row in run.rows if row.rate and row.trial.mode in TRAINING]
    yield from _without_base(trained)
    several = [row for row in trained if row.trial.comm.servers and row.trial.workers > 1]
    if several and not any(row.worker for row in several):
        yield (
            "The cost of parameter servers is unknown, because no point has 1 worker with the same "
            "kvstore."
        )


def _failure(row: ScalingRow) -> str:
    """Return 'stalled', or 'stalled in 1 of 3 repeats' if other repeats have a result."""
    word = STATUS_WORDS.get(row.status, row.status)
    for note in row.notes:
        if note.kind == NoteKind.FAILED_REPEATS:
            return f"{word} in {note.figures['failed']} of {note.figures['of']} repeats"
    return word


def _without_base(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """Yield the networks that lack a 1-device result while other networks have one."""
    networks = grouped((network_label(row), row) for row in rows)
    names = [n for n, some in networks.items() if len({o.trial.layout.devices for o in some}) > 1]
    without = [name for name in names if not any(row.device for row in networks[name])]
    if without and len(without) < len(names):
        why = "no point on 1 device has a result"
        yield f"No speed-up or efficiency for {_named(without)}, because {why}."


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _noted_points(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """Yield the headlines of notes, interference first, each with its points."""
    good = [row for row in rows if row.rate]
    notes = grouped((note.kind, (note, row.name)) for row in good for note in row.notes)
    found = grouped(
        (_headline(note), name)
        for kind in NoteKind
        if kind.headline and kind is not NoteKind.TEXT
        for note, name in notes.get(kind, ())
    )
    for headline, names in found.items():
        yield f"{headline}: {_named(list(dict.fromkeys(names)))}"
    yield from _text_notes(good)


def _headline(note: Note) -> str:
    """Return the headline with the missing figure of a note on baselines."""
    return note.kind.headline.replace("{cell}", str(note.figures.get("cell", "efficiency")))


def _text_notes(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """Yield the free-text notes of records written by older versions."""
    found = [note for row in rows for note in row.notes if note.kind == NoteKind.TEXT]
    texts = list(dict.fromkeys(map(sentence, found)))
    if texts:
        more = [f"{len(texts) - _MOST_TEXTS} more"] if len(texts) > _MOST_TEXTS else []
        yield f"{NoteKind.TEXT.headline}: {', '.join([*texts[:_MOST_TEXTS], *more])}"


def _uncertain(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """Yield statistical caveats, except few repeats and wide CIs."""
    emulated = [row for row in rows if row.rate and row.emulated]
    if emulated:
        points = _counted(len(emulated), "oversubscribed point")
        yield f"no valid performance result: {points} (more devices than the machine has)"
    unclear = [row for row in rows if row.uncertain]
    lost = [row for row in unclear if row.rate and is_uninformative(row.rate.ratio)]
    names = [row.name for row in lost]
    names += [f"{row.name} vs its baseline" for row in unclear if row not in lost]
    if names:
        yield f"{_UNCERTAIN}: {_named(names)}"


def caveat_names(row: ScalingRow) -> list[str]:
    """Return the summary's names of the caveats that mark the point, each once."""
    found = [_headline(note) for note in row.notes if note.kind.headline]
    return list(dict.fromkeys([*found, *[_UNCERTAIN] * row.uncertain]))


def _efficiencies(row: ScalingRow) -> list[Ratio]:
    """Return the row's efficiencies vs the baselines that are chosen by default."""
    return [one.efficiency for name, one in row.scalings.items() if name in COLUMNS]


def _point_caveats(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """Yield caveats about single points and about where servers ran."""
    good = [row for row in rows if row.rate]
    unsteady = [row.name for row in good if row.status == "unstable"]
    if unsteady and not any(kind in UNSTEADY for row in good for kind in row.headline_kinds):
        yield f"{NoteKind.NOT_STEADY.headline}: {_named(unsteady)}"
    above = [
        row.name
        for row in good
        if any(one.low is not None and one.low > _ABOVE for one in _efficiencies(row))
    ]
    if above:
        yield f"efficiency above 100 %, so a baseline may be too slow: {_named(above)}"
    sharing = [r for r in good if r.trial.layout.device == "cpu" and r.trial.servers]
    if any(not row.trial.layout.server_hosts for row in sharing):
        yield "parameter servers share CPU cores with the workers"


def _named(names: Sequence[str]) -> str:
    return list_names(names, _MOST_NAMED_CAVEATS, ", ")


def summary(run: Run) -> str:
    """Return the summary as one paragraph of about 90 words."""
    return " ".join(map(one_sentence, summary_items(run)))


@kept
def summary_items(run: Run) -> list[Item]:
    """Return the summary: a few sentences and lists, however many points there are."""
    trained = [row for row in run.rows if row.trial.mode in TRAINING]
    return [
        *map(Item, _provenance(run)),
        *_time_items(trained),
        *_top_items(trained, scripted=run.rehearsal),
        *_sentences(run),
    ]


@kept
def _sentences(run: Run) -> list[Item]:
    """Return the summary after the results of the networks."""
    trained = [row for row in run.rows if row.trial.mode in TRAINING]
    publishable = all(row.quality is Quality.PUBLISHABLE for row in run.rows if row.quality)
    return [
        *_scaling_caveats(trained, scripted=run.rehearsal),
        *map(Item, baseline_sentence(trained)),
        *map(Item, _other_modes(run.rows)),
        *([Item(_trained(run, trained))] if trained else []),
        *(Item(one, caveat=not publishable) for one in quality_sentence(run)),
        *caveats(run),
        *earlier_items(run.earlier, {row.trial.key: row.name for row in run.rows}),
    ]


def key_items(run: Run) -> list[Item]:
    """Return at most five sentences of the summary: times, caveats, then others.

    They stand beside the results of the networks and the source of the figures.
    """
    trained = [row for row in run.rows if row.trial.mode in TRAINING]
    times, found = list(_time_items(trained)), _sentences(run)
    first = sorted(range(len(found)), key=lambda at: not found[at].caveat)
    chosen = sorted(first[: _MOST_KEYS - len(times)])
    return [shortened(one, _MOST_KEY_PARTS) for one in (*times, *(found[at] for at in chosen))]


def enumeration(words: Sequence[str], most: int = 99) -> str:
    """Return 'a, b and c'; beyond `most` words a count: 'a, b and 5 more'."""
    if len(words) > most:
        words = [*words[: most - 1], f"{len(words) - most + 1} more"]
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _provenance(run: Run) -> Iterator[str]:
    """Yield the first sentences: the figures are simulated, or another tool's."""
    if run.rehearsal:
        yield (
            "This run is SIMULATED: its times are scripted, nothing was trained, and no figure "
            "here is a measurement."
        )
    if run.sources:
        whole = all(one.source for row in run.rows for one in row.repeats if one.samples)
        which = "These figures were" if whole else "Some of these figures were"
        yield f"{which} not measured by mxscale. Source: {enumeration(run.sources, 2)}."


def _trained(run: Run, rows: Sequence[ScalingRow]) -> str:
    """Return the experiment in one sentence: date, data, hardware, stores, points."""
    verb = "Simulated" if run.rehearsal else "Trained"
    comms = sorted({row.trial.comm for row in rows}, key=lambda one: (one.spans, one.name))
    names = [one.name for one in comms]
    day = str(run.environment.get("date", ""))[:10]
    counts = sorted({row.trial.layout.devices for row in rows})
    devices = enumeration([str(n) for n in counts]) if len(counts) < 3 else _range(counts)
    hosts = sorted({row.trial.hosts for row in rows})
    of_hosts = "" if hosts == [1] else f" ({_range(hosts)} hosts)"
    return (
        f"{verb}{f' on {day}' if day else ''} with {_data(rows)} on {devices} "
        f"{device_noun(rows, counts[-1])}{of_hosts}, kvstore "
        f"{enumeration(names, _MOST_NAMED)}{_batch(rows)}: {_points(run.rows)}."
    )


def _points(rows: Sequence[ScalingRow]) -> str:
    """Return '13 training points and 1 input-pipeline point, each run 3 times'."""
    kinds = [(_POINT_KINDS.get(row.trial.mode, "training"), row) for row in rows]
    counts = {kind: len(some) for kind, some in grouped(kinds).items()}
    order = sorted(counts, key=lambda kind: kind != "training")
    named = [
        _counted(counts[kind], f"{kind} point" if len(order) > 1 else "point") for kind in order
    ]
    points, each = enumeration(named), "" if len(rows) == 1 else "each "
    repeats = sorted({row.rate.repeats for row in rows if row.rate})
    if not repeats:
        return points
    count = _range(repeats)
    return f"{points}, {each}run {({'1': 'once', '2': 'twice'}).get(count, f'{count} times')}"


def _data(rows: Sequence[ScalingRow]) -> str:
    """Return 'synthetic images'; if both kinds occur, name networks on real images."""
    modes = {row.trial.mode for row in rows}
    if len(modes) == 1:
        return f"{modes.pop()} images"
    names = dict.fromkeys(row.trial.label for row in rows if row.trial.mode == "real")
    return f"synthetic images (real images: {enumeration(list(names), _MOST_NAMED)})"


def _range(values: Sequence[int]) -> str:
    return f"{values[0]} to {values[-1]}" if len(values) > 1 else f"{values[0]}"


def _batch(rows: Sequence[ScalingRow]) -> str:
    """Return ', batch size 8 per device' if all points have the same; else ''."""
    whole = all(row.trial.training.global_batch_fixed for row in rows)
    found = {row.trial.global_batch if whole else row.trial.device_batch for row in rows}
    if len(found) > 1:
        return ""
    (count,) = found
    return f", global batch size {count}" if whole else f", batch size {count} per device"


def _other_modes(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """Yield the results of points that do not train."""
    read = [row.rate.images_per_second for row in rows if row.trial.mode == "test-io" and row.rate]
    if read:
        yield f"Input-pipeline benchmark: {significant(max(read))} images/s."
    moved = [row for row in rows if row.trial.mode == "bandwidth" and row.rate]
    if moved:
        most = max(moved, key=size)
        yield f"kvstore bandwidth, {most.name}: {most.note_text}."
