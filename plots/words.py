"""A run in one paragraph: how far it scales, what was measured, what to doubt."""

from collections.abc import Iterator, Sequence

from bench.kvstores import is_distributed
from plots.doubts import doubts
from plots.lines import TRAINING
from plots.numbers import significant
from plots.reach import against_others, scales, size, unit
from results.run import Run
from results.scaling import ScalingRow

_MOST_NAMED = 4


def paragraph(run: Run) -> str:
    """What a stranger reads first; some 90 words, however many points there are."""
    trained = [row for row in run.rows if row.trial.mode in TRAINING]
    sentences = [
        *_caution(run),
        *scales(trained, scripted=run.rehearsal),
        *([_trained(run, trained)] if trained else []),
        *_besides(run.rows),
        *against_others(trained),
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
    """What was asked for: when, data, devices, hosts, stores, points, batch where it is one."""
    verb = "Played" if run.rehearsal else "Trained"
    names = sorted({row.trial.kvstore for row in rows}, key=lambda one: (is_distributed(one), one))
    day = str(run.environment.get("date", ""))[:10]
    return (
        f"{verb}{f' on {day}' if day else ''} with {_data(rows)} on {_devices(rows)}"
        f"{_hosts(rows)} through kvstore {enumeration(names, _MOST_NAMED)}{_batch(rows)}: "
        f"{_points(rows)}."
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


def _data(rows: Sequence[ScalingRow]) -> str:
    """'synthetic and real images', with the networks of the rarer kind where both are there."""
    modes = {row.trial.mode for row in rows}
    if len(modes) == 1:
        return f"{modes.pop()} images"
    names = dict.fromkeys(row.trial.label for row in rows if row.trial.mode == "real")
    return f"synthetic and ({enumeration(list(names), _MOST_NAMED)}) real images"


def _devices(rows: Sequence[ScalingRow]) -> str:
    counts = sorted({row.trial.devices for row in rows})
    told = enumeration([str(n) for n in counts]) if len(counts) < 3 else _range(counts)
    return f"{told} {unit(rows, counts[-1])}"


def _hosts(rows: Sequence[ScalingRow]) -> str:
    hosts = sorted({row.trial.hosts for row in rows})
    return "" if hosts == [1] else f" of {_range(hosts)} hosts"


def _range(values: Sequence[int]) -> str:
    return f"{values[0]} to {values[-1]}" if len(values) > 1 else f"{values[0]}"


def _batch(rows: Sequence[ScalingRow]) -> str:
    """', 8 images a step on each device' where all have one batch; the table has the others."""
    whole = all(row.trial.global_batch_fixed for row in rows)
    found = {row.trial.global_batch if whole else row.trial.device_batch for row in rows}
    if len(found) > 1:
        return ""
    (count,) = found
    where = "of the whole job" if whole else "on each device"
    return f", {count} image{'' if count == 1 else 's'} a step {where}"


def _besides(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """What was measured that is no training."""
    read = [row.rate.images_per_second for row in rows if row.trial.mode == "test-io" and row.rate]
    if read:
        yield f"Reading alone reached {significant(max(read))} images/s."
    moved = [row for row in rows if row.trial.mode == "bandwidth" and row.rate]
    if moved:
        most = max(moved, key=size)
        yield f"Of the bytes that a store moves, {most.trial.name}: {most.remark}."
