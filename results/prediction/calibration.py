"""Stored predictions of a run, scored once their points are measured."""

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec

from bench.trial import Trial
from results.errors import store_errors
from results.prediction.forecast import Ceiling, Prediction
from results.prediction.limits import Limits
from results.prediction.population import LEVELS, Kind
from results.prediction.series import SHARED, Series
from results.run_folder import PREDICTIONS, REPORT
from results.scaling import ScalingRow
from results.store import write_text

# 1: first.
SCHEMA = 1
_MOST_BYTES = 1 << 26
_Count = Annotated[int, msgspec.Meta(ge=1, le=10**7)]
_Figure = Annotated[float, msgspec.Meta(gt=0, lt=1e15)]
_Name = Annotated[str, msgspec.Meta(max_length=200)]


@dataclass(frozen=True, kw_only=True)
class StoredPrediction:
    """A line of predictions.jsonl: a prediction, and the points that it rests on.

    made           date and time (UTC)
    series         settings that a measured point must share, as a hash
    known_devices  the largest number of devices that was known
    load           None if unknown
    link, servers  the limits that were given or measured (bytes/s; servers on hosts of their own)

    The other fields are those of `Prediction`.
    """

    schema: Annotated[int, msgspec.Meta(ge=1, le=SCHEMA)]
    made: _Name
    series: _Name
    network: _Name
    kvstore: _Name
    batch_per_device: _Count
    known_devices: _Count
    load: _Figure | None
    link: _Figure | None
    servers: _Count | None
    devices: _Count
    hosts: _Count
    images_per_second: _Figure
    low_80: _Figure
    high_80: _Figure
    low_95: _Figure
    high_95: _Figure
    constant: _Figure
    efficiency: _Figure
    efficiency_low: _Figure
    efficiency_high: _Figure
    kind: Kind
    ceiling: Ceiling | None = None

    @property
    def same_job(self) -> tuple[object, ...]:
        """What two predictions of the same point share."""
        return self.series, self.batch_per_device, self.servers

    @property
    def basis(self) -> tuple[object, ...]:
        """The known points and the link that the prediction rests on."""
        return self.kvstore, self.known_devices, self.link


@dataclass(frozen=True, kw_only=True)
class PredictionScore:
    """A stored prediction, and the throughput (images/s) measured since, if any."""

    prediction: StoredPrediction
    measured: float | None

    @property
    def error(self) -> float | None:
        """Predicted / measured - 1."""
        return self.prediction.images_per_second / self.measured - 1 if self.measured else None

    def holds(self, level: float) -> bool | None:
        """Return whether the interval of a level holds the measured throughput."""
        one = self.prediction
        ends = dict(
            zip(LEVELS, ((one.low_80, one.high_80), (one.low_95, one.high_95)), strict=True)
        )
        low, high = ends[level]
        return None if self.measured is None else low <= self.measured <= high


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """All predictions of a run, oldest first.

    lines  lines of their file; those that are unreadable have no prediction
    """

    scored: tuple[PredictionScore, ...] = ()
    lines: int = 0

    @property
    def distinct(self) -> list[PredictionScore]:
        """The newest prediction of each point from each number of known devices."""
        found = {}
        for one in self.scored:
            made = one.prediction
            found[made.same_job, made.devices, made.known_devices] = one
        return list(found.values())

    @property
    def newest(self) -> list[PredictionScore]:
        """The newest prediction of each point."""
        return list(
            {(one.prediction.same_job, one.prediction.devices): one for one in self.scored}.values()
        )

    @property
    def fans(self) -> list[list[StoredPrediction]]:
        """The newest predictions of each job, from the same points, by devices."""
        known = {one.prediction.same_job: one.prediction.basis for one in self.scored}
        found: dict[tuple[object, ...], dict[int, StoredPrediction]] = {}
        for one in (each.prediction for each in self.scored):
            if one.basis == known[one.same_job]:
                found.setdefault(one.same_job, {})[one.devices] = one
        return [[some[count] for count in sorted(some)] for some in found.values()]


NO_PREDICTIONS = Predictions()


def stored(series: Series, found: Iterable[Prediction], limits: Limits) -> list[StoredPrediction]:
    """Return the lines of these predictions."""
    load = series.load(math.inf if limits.link is None else limits.link)
    made = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return [
        StoredPrediction(
            schema=SCHEMA,
            made=made,
            series=series_hash(series.trial, series.batch),
            network=series.network,
            kvstore=series.trial.layout.kvstore,
            batch_per_device=series.batch,
            known_devices=series.devices,
            load=load if math.isfinite(load) else None,
            link=limits.link,
            servers=limits.servers,
            **vars(one),
        )
        for one in found
    ]


def series_hash(trial: Trial, batch: int) -> str:
    """Return a hash of the settings that a prediction and its measured point share."""
    values = {name: trial.value(name) for name in (*SHARED, "mode")} | {"batch_per_device": batch}
    text = json.dumps(values, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def add(folder: Path, found: Sequence[StoredPrediction]) -> list[Path]:
    """Append predictions to those of a run; return the path of the file, if it grew.

    A prediction that the run has already, made of the same figures, is not added again.
    """
    path = folder / REPORT / PREDICTIONS
    lines = _lines(path)
    known = {_figures(one) for line in lines if (one := _parsed(line))}
    new = [json.dumps(asdict(one)) for one in found if _figures(one) not in known]
    if not new:
        return []
    with store_errors(path, "written"):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(f"{line}\n" for line in (*lines, *new)))
    return [path]


def _figures(one: StoredPrediction) -> str:
    return json.dumps({name: value for name, value in asdict(one).items() if name != "made"})


def _lines(path: Path) -> list[str]:
    if not path.is_file() or path.is_symlink():
        return []
    with store_errors(path, "read"), path.open("rb") as file:
        return file.read(_MOST_BYTES).decode(errors="replace").splitlines()


def _parsed(line: str) -> StoredPrediction | None:
    with suppress(msgspec.DecodeError, ValueError):
        return msgspec.json.decode(line, type=StoredPrediction)
    return None


def load_predictions(
    folder: Path, rows: Sequence[ScalingRow], most: int | None = None
) -> Predictions:
    """Read the predictions of a run, or the first `most`, scored by these rows."""
    lines = _lines(folder / REPORT / PREDICTIONS)[:most]
    found = [one for line in lines if (one := _parsed(line))]
    return replace(scored(found, rows), lines=len(lines))


def scored(found: Iterable[StoredPrediction], rows: Sequence[ScalingRow]) -> Predictions:
    """Return predictions with the throughput of their points, as far as measured."""
    measured = _measured(rows)
    each = (PredictionScore(prediction=one, measured=_of(one, measured)) for one in found)
    return Predictions(scored=tuple(each))


def _measured(rows: Sequence[ScalingRow]) -> dict[tuple[str, int], list[ScalingRow]]:
    """Return the good points by series and devices."""
    found: dict[tuple[str, int], list[ScalingRow]] = {}
    for row in rows:
        if row.rate and row.status == "ok" and not row.emulated:
            key = series_hash(row.trial, row.trial.training.batch_per_device)
            found.setdefault((key, row.trial.layout.devices), []).append(row)
    return found


def _of(one: StoredPrediction, measured: dict[tuple[str, int], list[ScalingRow]]) -> float | None:
    """Return the throughput of the predicted point, if it was measured since.

    The point has the predicted number of servers, if one was given, and of several points the
    predicted kvstore.
    """
    rows = measured.get((one.series, one.devices), [])
    rows = [row for row in rows if one.servers in {None, row.trial.servers}]
    same = [row for row in rows if row.trial.layout.kvstore == one.kvstore] or rows
    return same[0].rate.images_per_second if len(same) == 1 and same[0].rate else None
