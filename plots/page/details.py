"""Point details for the page: windows, ranks and commands, thinned to fit."""

import base64
import gzip
import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from bench.notes import sentence, texts
from bench.settings.point_names import point_words
from plots.page.commands import first_processes, rerun_command, rerun_title
from plots.tables.explanation import verdict_cell
from results.repeat import RankSpeed, RepeatSummary
from results.run import Run
from results.scaling import ScalingRow

_MOST, _FEWEST = 1024, 4
# Higher levels save 1 % of Plotly's size and take twice the time.
_LEVEL = 6
# Approximate size of a number, compressed and in base64; only for the first guess.
_BYTES = 4.5


def evenly_spaced(count: int, keep: int) -> list[int]:
    """Return at most `keep` evenly spaced indices below `count`, with both ends."""
    if count <= keep:
        return list(range(count))
    if keep < 2:
        return [0][:keep]
    return sorted({round(place * (count - 1) / (keep - 1)) for place in range(keep)})


def extremes(values: Sequence[float], keep: int) -> list[int]:
    """Return, in order, the indices of the extremes of each of keep / 2 intervals."""
    if len(values) <= keep:
        return list(range(len(values)))
    size = math.ceil(len(values) / max(1, keep // 2))
    stretches = [range(at, min(at + size, len(values))) for at in range(0, len(values), size)]
    found = [pick(one, key=values.__getitem__) for one in stretches for pick in (min, max)]
    return sorted(set(found))


def thin_values(values: Sequence[float], keep: int) -> list[float]:
    """Return at most `keep` values, sorted: both extremes and an even sample between."""
    ordered = sorted(values)
    return [ordered[place] for place in evenly_spaced(len(ordered), keep)]


def slowness(pace: RankSpeed) -> float:
    """Return a rank's own compute seconds if probed, otherwise its window time.

    Window times of synchronous ranks are equal, because all ranks wait for the slowest.
    """
    return pace.seconds if pace.own_seconds is None else pace.own_seconds


def thin_ranks(paces: Sequence[RankSpeed], keep: int) -> list[RankSpeed]:
    """Return about `keep` ranks in order: the slowest, the fastest, a sample between."""
    if len(paces) <= keep:
        return list(paces)
    ordered = sorted(paces, key=slowness, reverse=True)
    chosen = {one.rank for one in [*ordered[: max(1, keep // 2)], ordered[-1]]}
    chosen.add(max(paces, key=lambda one: one.seconds).rank)
    rest = [one for one in paces if one.rank not in chosen]
    chosen |= {rest[place].rank for place in evenly_spaced(len(rest), max(0, keep - len(chosen)))}
    return [one for one in paces if one.rank in chosen]


def packed(text: str) -> str:
    """Return a text gzipped and in base64, as the page's scripts unpack it."""
    return base64.b64encode(gzip.compress(text.encode(), _LEVEL, mtime=0)).decode()


def packed_details(run: Run, most_bytes: int) -> tuple[str, int | None]:
    """Return all point details, packed, and the limit of values per repeat.

    Details are gzipped JSON in base64. The limit is None if nothing was left out. It is as high as
    `most_bytes` allows but at least four, so the text can exceed `most_bytes`.
    """
    keep = _first(run, most_bytes)
    while True:
        text = _pack(run, keep)
        if len(text) <= most_bytes or keep <= _FEWEST:
            cut = any(max(len(o.windows), len(o.rank_speeds)) > keep for o in _repeats(run))
            return text, keep if cut else None
        keep = max(_FEWEST, keep * 9 // 10)


def _repeats(run: Run) -> list[RepeatSummary]:
    return [one for row in run.rows for one in row.repeats]


def _first(run: Run, most_bytes: int) -> int:
    """Estimate how many values per repeat fit."""
    keep = _MOST
    sizes = Counter((len(one.windows), len(one.rank_speeds)) for one in _repeats(run))
    while keep > _FEWEST:
        values = sum(
            count * (min(keep, windows) + 3 * min(keep, ranks))
            for (windows, ranks), count in sizes.items()
        )
        if values * _BYTES <= most_bytes:
            break
        keep = keep * 9 // 10
    return max(keep, _FEWEST)


def _pack(run: Run, keep: int) -> str:
    title = rerun_title(run)
    points = [
        {
            "replay": {"title": title, "command": rerun_command(run, row, words)},
            "repeats": [_repeat(one, keep) for one in row.repeats],
            "why": _why(row),
        }
        for row, words in zip(run.rows, point_words([r.trial for r in run.rows]), strict=True)
    ]
    return packed(json.dumps(points, separators=(",", ":"), allow_nan=False))


def _why(row: ScalingRow) -> dict[str, str] | None:
    """Return the verdict and its evidence; the shares are in results.csv."""
    if row.verdict is None:
        return None
    return {"verdict": verdict_cell(row), "evidence": sentence(row.verdict.note)}


def _repeat(one: RepeatSummary, keep: int) -> dict[str, Any]:
    return {
        "number": one.identity.repeat + 1,
        "status": one.status,
        "message": "; ".join(filter(None, (one.message, *texts(one.notes)))),
        "source": one.source,
        "started": one.started,
        "elapsed": _short(one.elapsed_seconds),
        "gpus": _gpus(one),
        "warmup": one.trial.measuring.warmup_windows,
        "dropped": one.dropped,
        "windows": _windows(one, keep),
        "ranks": _ranks(list(one.rank_speeds), keep),
        "processes": first_processes(one.commands),
    }


def _gpus(one: RepeatSummary) -> str:
    """Return 'GPUs busy for 93 % of the time, at most 61 °C'; '' if unknown."""
    figures = {
        "busy for {:.0%} of the time": one.gpu_utilization,
        "at most {:.0f} °C": one.gpu_temperature,
        "SM clock at least {:.0%} of its maximum": one.gpu_clock,
    }
    known = [text.format(value) for text, value in figures.items() if value is not None]
    return f"GPUs {', '.join(known).replace('%', ' %')}" if known else ""


def _windows(one: RepeatSummary, keep: int) -> dict[str, Any]:
    seconds = [window[0] for window in one.windows]
    kept = extremes(seconds, keep)
    return {
        "of": len(seconds),
        "at": kept,
        "seconds": [_short(seconds[place]) for place in kept],
        "images": [one.windows[place][1] for place in kept],
    }


def _ranks(paces: Sequence[RankSpeed], keep: int) -> dict[str, Any]:
    kept = thin_ranks(paces, keep)
    return {
        "of": len(paces),
        "rank": [pace.rank for pace in kept],
        "host": [pace.host for pace in kept],
        "process": [pace.process for pace in kept],
        "seconds": [_short(pace.seconds) for pace in kept],
        "own": [_short(pace.own_seconds) for pace in kept],
        "cpu": [_short(pace.cpu_share) for pace in kept],
        **_memory(kept),
        # No rank is the slowest if all are equally fast.
        "slowest": max(paces, key=slowness).rank if len(set(map(slowness, paces))) > 1 else None,
    }


def _memory(kept: Sequence[RankSpeed]) -> dict[str, list[float | None]]:
    """Return peak gigabytes of the ranks, if one reported them."""
    found = {
        "memory": [pace.memory_bytes for pace in kept],
        "gpu": [pace.device_memory_bytes for pace in kept],
    }
    return {
        name: [_short(one and one / 1e9) for one in some]
        for name, some in found.items()
        if any(some)
    }


def _short(value: float | None) -> float | None:
    """Round to five digits; None if the value is not a finite number."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")
