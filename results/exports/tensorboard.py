"""TensorBoard scalars: throughput and efficiency by devices, window times, losses."""

from collections.abc import Iterable
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from results.exports.point import (
    ExportPoint,
    RepeatSeries,
    file_name,
    repeat_series,
    series,
    start_seconds,
    training_points,
)
from results.repeat import RepeatSummary
from results.run import Run

# Values drawn as curves over the number of devices.
_CURVES = ("images_per_second", "low", "high")
_SUFFIX = ".mxscale"
# (tag, step, value, seconds since 1970)
Scalar = tuple[str, int, float, float]


def write(run: Run, folder: Path) -> list[Path]:
    """Write tensorboard/RUN/, one event file per series; return the log folder."""
    home = folder / "tensorboard" / run.name
    for old in home.rglob(f"*{_SUFFIX}"):
        old.unlink()
    good = training_points(run)
    for name, members in _lines(good).items():
        _save(home / file_name(name), (one for point in members for one in _scaling(point)))
    known = series(run.folder)
    for point in good:
        for one in point.row.repeats:
            place = home / file_name(_curve_name(point.name, point.standing))
            found = repeat_series(known, one)
            _save(place / f"repeat_{one.identity.repeat + 1}", _windows(one, found))
    return [home] if good else []


def _curve_name(name: str, standing: str) -> str:
    """Return the name of a curve, with the point's caveats in front."""
    return name if standing == "measured" else f"{standing.upper()} {name}"


def _lines(points: Iterable[ExportPoint]) -> dict[str, list[ExportPoint]]:
    """Return the points of each curve over devices, by curve name.

    A second point with the same number of devices gets a curve of its own.
    """
    found: dict[str, list[ExportPoint]] = {}
    for point in points:
        parts = (point.labels[name] for name in ("network", "mode", "kvstore", "dtype"))
        name = _curve_name(f"scaling {' '.join(parts)}", point.standing)
        members = found.setdefault(name, [])
        if any(one.row.trial.layout.devices == point.row.trial.layout.devices for one in members):
            members = found.setdefault(f"{name} {point.row.trial.key}", [])
        members.append(point)
    return found


def _scaling(point: ExportPoint) -> list[Scalar]:
    at = start_seconds(point.row.repeats[0], 0.0)
    return [
        (
            name.replace("_", "/", 1) if name not in _CURVES else name,
            point.row.trial.layout.devices,
            y,
            at,
        )
        for name, y in point.figures.items()
        if name in _CURVES or name.startswith(("speedup_", "efficiency_"))
    ]


def _windows(one: RepeatSummary, found: RepeatSeries) -> list[Scalar]:
    seconds = [
        ("window_seconds", number, value, found.ends[number])
        for number, (value, _) in enumerate(one.windows)
    ]
    return seconds + [("loss", n, loss, found.ends[n]) for n, loss in found.losses]


def _save(place: Path, scalars: Iterable[Scalar]) -> None:
    writer = EventFileWriter(str(place), filename_suffix=_SUFFIX)
    try:
        for tag, step, value, at in scalars:
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            writer.add_event(Event(wall_time=at, step=step, summary=summary))
    finally:
        writer.close()
