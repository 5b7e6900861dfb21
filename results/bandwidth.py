"""What a store moves: bytes each way of a worker, from records whose images are bytes."""

from bench.trial import Trial
from results.rates import Rate


def mb_per_second(trial: Trial, rate: Rate) -> float:
    """10^6 bytes a second that one worker pushes, and as many that it pulls meanwhile."""
    return rate.images_per_second / trial.workers / 1e6


def sentence(trial: Trial, rate: Rate) -> str:
    """What a point of bandwidth has come to."""
    value = mb_per_second(trial, rate)
    if rate.low is None or rate.high is None:
        return f"{value:.0f} MB/s each way a worker"
    low, high = (end / trial.workers / 1e6 for end in (rate.low, rate.high))
    return f"{value:.0f} MB/s each way a worker (95 % {low:.0f} .. {high:.0f})"
