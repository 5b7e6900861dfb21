"""The caption of a figure: hardware, settings, and points left out."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from bench.engines.catalog import ENGINES
from bench.settings.point_names import short_value
from plots.figures.model import TRAINING, drawable, line_fields, network_label, scalable
from plots.format import REHEARSAL_NOTE, error_bar_note, list_names
from plots.point_labels import common_settings, varied_settings
from results.quality import Quality
from results.record import grouped
from results.run import Run
from results.scaling import ScalingRow

_MOST_NAMED = 6


def hardware(environment: dict[str, Any]) -> str:
    """Return hardware and software in one line; for a cluster, those of its hosts."""
    return ", ".join([*_machines(environment), *_software(environment)])


def _machines(environment: dict[str, Any]) -> list[str]:
    hosts = environment.get("hosts") or {}
    kinds = Counter(map(_host, hosts.values()))
    parts = (
        environment.get("processor"),
        environment.get("cores") and not hosts and f"{environment['cores']} cores",
        environment.get("memory_gib") and not hosts and f"{environment['memory_gib']} GiB",
        ", ".join(
            f"{count} host{'s' if count > 1 else ''}{f' of {kind}' if kind else ''}"
            for kind, count in kinds.items()
        ),
    )
    return [str(part) for part in parts if part]


def _software(environment: dict[str, Any]) -> list[str]:
    python = environment.get("python")
    found = (engine.software(environment) for engine in ENGINES.values())
    return [*filter(None, found), *([f"Python {python}"] if python else [])]


def _has_software(environment: dict[str, Any]) -> bool:
    return any(engine.software(environment) for engine in ENGINES.values())


def provenance(run: Run) -> str:
    """Return the hardware; a simulation is marked because it measures nothing."""
    reported = run.rows and all(row.trial.reported for row in run.rows)  # by other software
    known = [] if reported else _software(run.environment)
    on = ", ".join([*_machines(run.environment), *known])
    return f"simulated on {on}" if run.rehearsal and on else on


def _host(facts: dict[str, Any]) -> str:
    """Return '64 cores and 16 Tesla K80', the same for hosts of one kind."""
    gpus = Counter(str(gpu.get("name", "GPU")) for gpu in facts.get("gpus", ()))
    cores = len(facts.get("cores", ()))
    parts = [f"{cores} core{'s' if cores > 1 else ''}"] if cores else []
    return " and ".join([*parts, *(f"{count} {name}" for name, count in gpus.items())])


def settings_line(rows: Sequence[ScalingRow]) -> str:
    """Return the non-default settings of all or most points; '' if there are none."""
    shared = common_settings([row.trial for row in rows])
    return f"settings: {shared}" if shared else ""


def caption(run: Run) -> str:
    """Return hardware, kvstore, batch, repeats, date, commit, and the points left out."""
    simulated = ["SIMULATED - scripted times, not measurements"] if run.rehearsal else []
    sources = run.sources
    named = [f"not measured by mxscale; source: {list_names(sources, 1)}"] if sources else []
    drawn = drawable(run.rows) or [row for row in run.rows if row.trial.mode in TRAINING]
    varied = varied_settings([row.trial for row in drawn])
    own = [f"settings of single points: {varied}"] if varied else []
    lines = [provenance(run), _how(run, drawn), settings_line(drawn), *own]
    lines += [varied_line(run.rows), *_left_out(run.rows)]
    return "\n".join(filter(None, [*simulated, *named, *lines]))


def varied_line(rows: Sequence[ScalingRow]) -> str:
    """Return the settings that vary, and the values that are not drawn.

    '' if at most one setting varies.
    """
    first, *others = line_fields(rows) or [""]
    drawn, found = drawable(rows), scalable(rows)
    parts = []
    for name in others:
        shown, every = (_values(some, name) for some in (drawn, found))
        rest = _named([one for one in every if one not in shown])
        more = f" (in the table only: {rest})" if rest else ""
        parts.append(f"{name} {_named(shown)}{more}")
    return f"lines by {first}; drawn with {'; '.join(parts)}" if parts else ""


def _values(rows: Sequence[ScalingRow], name: str) -> list[str]:
    return list(dict.fromkeys(short_value(row.trial.value(name)) for row in rows))


def method(run: Run, rows: Sequence[ScalingRow]) -> list[str]:
    """Return sentences for a paper: origin, intervals, n, machine, settings, commit."""
    sources = [source for row in rows for source in row.sources]
    repeats = sorted({row.rate.repeats for row in rows if row.rate})
    stores = list(dict.fromkeys(row.trial.layout.kvstore for row in rows))
    used = dict.fromkeys(one.baseline for row in rows if (one := row.shown_scaling))
    commit, date = run.commit or "unknown", str(run.environment.get("date", ""))[:10]
    reported = any(row.trial.reported for row in rows)
    origin = "Reported by a program" if reported else "Imported"
    measured = "Simulated" if run.rehearsal else "Run" if reported else "Measured"
    found = (
        REHEARSAL_NOTE if run.rehearsal else "",
        sources
        and f"{origin}, not measured by mxscale; source: {_named(list(dict.fromkeys(sources)))}",
        repeats and f"Intervals: {error_bar_note(row.rate for row in rows)}",
        repeats and f"n = {'-'.join(map(str, dict.fromkeys((repeats[0], repeats[-1]))))} per point",
        _quality(rows),
        used and f"Baseline: {_named(list(map(str, used)))}",
        _sentence(provenance(run)),
        "" if _has_software(run.environment) or sources else "MXNet version unknown",
        f"Kvstore {_named(stores)}; {_batches(rows)}",
        _sentence(settings_line(rows)),
        ""
        if sources and not reported
        else f"{measured} with mxscale, commit {commit}{date and f', {date}'}",
    )
    return [f"{one}." for one in found if one]


def _quality(rows: Sequence[ScalingRow]) -> str:
    """Return how many points have each quality; '' if none has one."""
    counts = Counter(row.quality for row in rows if row.quality)
    named = [f"{counts[one]} {one}" for one in Quality if counts[one]]
    return f"Quality of the points: {', '.join(named)}" if named else ""


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _how(run: Run, rows: Sequence[ScalingRow]) -> str:
    names = list(dict.fromkeys(row.trial.layout.kvstore for row in rows))
    repeats = sorted({row.rate.repeats for row in run.rows if row.rate})
    commit = run.environment.get("commit")
    parts = (
        f"kvstore {_named(names)}" if names else "",
        _batches(rows),
        str(run.environment.get("date", ""))[:10],
        commit and f"commit {commit}",
        f"n = {'-'.join(map(str, repeats))}" if repeats else "",
        f"bars: {error_bar_note(row.rate for row in run.rows)}",
    )
    return "; ".join(part for part in parts if part)


def _batches(rows: Sequence[ScalingRow]) -> str:
    """Return the batch size per device by network, or the global one if it is fixed."""
    whole = any(row.trial.training.global_batch_fixed for row in rows)
    found = grouped(
        (network_label(row), row.trial.global_batch if whole else row.trial.device_batch)
        for row in rows
    )
    ends = {name: sorted({min(values), max(values)}) for name, values in found.items()}
    texts = {name: "-".join(map(str, some)) for name, some in ends.items()}
    title = "global batch size" if whole else "batch size per device"
    if len(set(texts.values())) == 1:
        return f"{title} {next(iter(texts.values()))}"
    listed = _named([f"{name} {text}" for name, text in texts.items()])
    return f"{title}: {listed}" if texts else ""


def _left_out(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """Yield one line per group of points that only the table shows in full.

    `varied_line` has the values of the others that are not drawn.
    """
    drawn = drawable(rows)
    seen = set(map(id, scalable(rows)))
    listed = {
        "in the table only": [row for row in rows if row.rate and id(row) not in seen],
        "no result": [row for row in rows if row.rate is None],
        "notes in the table": [row for row in drawn if row.notes],
    }
    for what, found in listed.items():
        if found:
            yield f"{what}: {_named(list(dict.fromkeys(row.name for row in found)))}"


def _named(names: Sequence[str]) -> str:
    return list_names(names, _MOST_NAMED, ", ")
