"""Images per second of a record and of repeats, with intervals, from raw window seconds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

from results.record import Record

_CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Images per second with the ends of its 95 % interval, from `windows` steady windows.

    The interval comes from the spread of window times where there is one repeat, and from the
    spread between repeats where there are more. low and high are None where there is one window.
    """

    images_per_second: float
    low: float | None
    high: float | None
    repeats: int
    windows: int

    @property
    def relative_error(self) -> float | None:
        """Half the interval's width on the logarithmic scale; None where there is no interval."""
        if self.low is None or self.high is None:
            return None
        return math.log(self.high / self.low) / 2


def steady_windows(record: Record) -> list[tuple[float, int]]:
    """(seconds, images) of each window after warm-up, of the whole job.

    A synchronous window lasts as long as its slowest rank, and every rank must have reported it.
    """
    warmup = record.trial.warmup_windows
    count = min(len(rank.seconds) for rank in record.ranks)
    return [
        (
            max(rank.seconds[index] for rank in record.ranks),
            sum(rank.images[index] for rank in record.ranks),
        )
        for index in range(warmup, count)
    ]


def _asynchronous_rate(record: Record) -> float:
    """Images of all ranks inside the time that all of them were in steady windows, over it.

    Ranks run on their own clocks: a window that lies partly inside counts by that part.
    """
    warmup = record.trial.warmup_windows
    begin = max(rank.ends[warmup] - rank.seconds[warmup] for rank in record.ranks)
    end = min(rank.ends[-1] for rank in record.ranks)
    images = 0.0
    for rank in record.ranks:
        for seconds, at, count in zip(rank.seconds, rank.ends, rank.images, strict=True):
            inside = min(at, end) - max(at - seconds, begin)
            images += count * max(0.0, inside) / seconds
    return images / (end - begin)


def rate_of(record: Record) -> float:
    """Images of all steady windows of all ranks over the seconds of those windows."""
    if record.trial.asynchronous:
        return _asynchronous_rate(record)
    return _pooled(steady_windows(record))


def _pooled(windows: Sequence[tuple[float, int]]) -> float:
    """Images of all windows over the seconds of all windows."""
    return sum(images for _, images in windows) / sum(seconds for seconds, _ in windows)


def rate(records: Sequence[Record]) -> Rate:
    """The rate of one trial's good repeats."""
    rates = [rate_of(record) for record in records]
    windows = [steady_windows(record) for record in records]
    if records[0].trial.asynchronous:  # no windows in common to add up
        value = len(rates) / sum(1 / one for one in rates)
    else:
        value = _pooled([window for one in windows for window in one])
    if len(records) > 1:
        logs = [math.log(one) for one in rates]
    else:
        logs = [math.log(images / seconds) for seconds, images in windows[0]]
    half = _half_width(logs)
    return Rate(
        images_per_second=value,
        low=None if half is None else value * math.exp(-half),
        high=None if half is None else value * math.exp(half),
        repeats=len(records),
        windows=sum(len(one) for one in windows),
    )


def _half_width(samples: Sequence[float]) -> float | None:
    """Half of the 95 % interval of the mean, by Student's t; None for fewer than two samples."""
    count = len(samples)
    if count < 2:
        return None
    mean = sum(samples) / count
    variance = sum((sample - mean) ** 2 for sample in samples) / (count - 1)
    quantile = float(stdtrit(count - 1, (1 + _CONFIDENCE) / 2))
    return quantile * math.sqrt(variance / count)


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """One rate over another with its 95 % interval; low and high None where either has none."""

    value: float
    low: float | None
    high: float | None

    def times(self, factor: float) -> "Ratio":
        """The ratio and its interval in another unit, such as per cent."""
        ends = (None if end is None else end * factor for end in (self.low, self.high))
        return Ratio(value=self.value * factor, **dict(zip(("low", "high"), ends, strict=True)))


def ratio(point: Rate, base: Rate, scale: float = 1.0) -> Ratio:
    """point / base * scale; the errors of both add in quadrature on the logarithmic scale."""
    value = point.images_per_second / base.images_per_second * scale
    if point is base:
        return Ratio(value=value, low=value, high=value)
    errors = point.relative_error, base.relative_error
    if errors[0] is None or errors[1] is None:
        return Ratio(value=value, low=None, high=None)
    half = math.hypot(errors[0], errors[1])
    return Ratio(value=value, low=value * math.exp(-half), high=value * math.exp(half))
