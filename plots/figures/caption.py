"""The caption of a figure: hardware, settings, and what is not drawn."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from plots.figures.model import TRAINING, drawable, network_label
from plots.format import error_bar_note, list_names
from plots.point_labels import common_settings, varied_settings
from results.run import Run
from results.scaling import ScalingRow

_MOST_NAMED = 6


def hardware(environment: dict[str, Any]) -> str:
    """Hardware and software in one line; of a cluster, its hosts instead of the master."""
    hosts = environment.get("hosts") or {}
    parts = (
        environment.get("processor"),
        environment.get("cores") and not hosts and f"{environment['cores']} cores",
        environment.get("memory_gib") and not hosts and f"{environment['memory_gib']} GiB",
        _hosts(hosts.values()),
        environment.get("mxnet") and f"MXNet {environment['mxnet']}",
        environment.get("python") and f"Python {environment['python']}",
    )
    return ", ".join(str(part) for part in parts if part)


def provenance(run: Run) -> str:
    """The machine, and of a rehearsal that it measured nothing there."""
    on = hardware(run.environment)
    return f"rehearsed on {on}" if run.rehearsal and on else on


def _hosts(found: Any) -> str:
    """'16 hosts of 64 cores and 16 Tesla K80'; one such text for each kind of host."""
    kinds = Counter(_host(facts) for facts in found)
    return ", ".join(
        f"{count} host{'s' if count > 1 else ''}{f' of {kind}' if kind else ''}"
        for kind, count in kinds.items()
    )


def _host(facts: dict[str, Any]) -> str:
    gpus = Counter(str(gpu.get("name", "GPU")) for gpu in facts.get("gpus", ()))
    cores = len(facts.get("cores", ()))
    parts = [f"{cores} core{'s' if cores > 1 else ''}"] if cores else []
    return " and ".join([*parts, *(f"{count} {name}" for name, count in gpus.items())])


def settings_line(rows: Sequence[ScalingRow]) -> str:
    """The settings that all points share and that are not the defaults; empty if there are none."""
    shared = common_settings([row.trial for row in rows])
    return f"settings: {shared}" if shared else ""


def caption(run: Run) -> str:
    """Hardware; kvstore, batch, repeats, date and commit; then what is not drawn."""
    rehearsal = ["REHEARSAL - scripted times, not measurements"] if run.rehearsal else []
    sources = dict.fromkeys(one.source for row in run.rows for one in row.repeats if one.source)
    more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    named = [f"not measured by mxscale: {next(iter(sources))}{more}"] if sources else []
    drawn = _drawn(run)
    varied = varied_settings([row.trial for row in drawn])
    own = [f"settings that vary: {varied}"] if varied else []
    lines = [provenance(run), _how(run), settings_line(drawn), *own, *_left_out(run.rows)]
    found = [*rehearsal, *named, *lines]
    return "\n".join(filter(None, found))


def _drawn(run: Run) -> Sequence[ScalingRow]:
    return drawable(run.rows) or [row for row in run.rows if row.trial.mode in TRAINING]


def _how(run: Run) -> str:
    rows = _drawn(run)
    repeats = sorted({row.rate.repeats for row in run.rows if row.rate})
    commit = run.environment.get("commit")
    parts = (
        _kvstores(rows),
        _batches(rows),
        str(run.environment.get("date", ""))[:10],
        commit and f"commit {commit}",
        f"n = {'-'.join(map(str, repeats))}" if repeats else "",
        f"bars: {error_bar_note(row.rate for row in run.rows)}",
    )
    return "; ".join(part for part in parts if part)


def _kvstores(rows: Sequence[ScalingRow]) -> str:
    names = list(dict.fromkeys(row.trial.layout.kvstore for row in rows))
    return f"kvstore {list_names(names, _MOST_NAMED, ', ')}" if names else ""


def _batches(rows: Sequence[ScalingRow]) -> str:
    """Images a step on one device by network; of the whole job where that is fixed."""
    found: dict[str, list[int]] = {}
    whole = any(row.trial.training.global_batch_fixed for row in rows)
    for row in rows:
        batch = row.trial.global_batch if whole else row.trial.device_batch
        found.setdefault(network_label(row), []).append(batch)
    texts = {name: _ends(values) for name, values in found.items()}
    where = "of the job" if whole else "on one device"
    if len(set(texts.values())) == 1:
        return f"{next(iter(texts.values()))} images a step {where}"
    told = _named([f"{name} {text}" for name, text in texts.items()])
    return f"images a step {where}: {told}" if texts else ""


def _ends(values: Sequence[int]) -> str:
    least, most = min(values), max(values)
    return f"{least}" if least == most else f"{least}-{most}"


def _left_out(rows: Sequence[ScalingRow]) -> Iterator[str]:
    """What only the table tells, a line each."""
    drawn = drawable(rows)
    seen = set(map(id, drawn))
    listed = {
        "in the table only": [row for row in rows if row.rate and id(row) not in seen],
        "without a number": [row for row in rows if row.rate is None],
        "the table says more of": [row for row in drawn if row.notes],
    }
    for what, found in listed.items():
        if found:
            yield f"{what}: {list_names([row.trial.name for row in found], _MOST_NAMED, ', ')}"


def _named(names: Sequence[str]) -> str:
    return list_names(names, _MOST_NAMED, ", ")
