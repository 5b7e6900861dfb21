"""What a store moves: bytes each way of a worker, from records whose images are bytes."""

from bench.notes import Note, NoteKind
from bench.trial import Trial
from results.rates import Rate


def mb_per_second(trial: Trial, rate: Rate) -> float:
    """10^6 bytes a second that one worker pushes, and as many that it pulls meanwhile."""
    return rate.images_per_second / trial.workers / 1e6


def moved(trial: Trial, rate: Rate) -> Note:
    """What a point of bandwidth has come to; without ends if its spread is not known."""
    value = mb_per_second(trial, rate)
    if rate.low is None or rate.high is None:
        return Note(NoteKind.BANDWIDTH_ALONE, {"mb_per_second": value})
    low, high = (end / trial.workers / 1e6 for end in (rate.low, rate.high))
    return Note(NoteKind.BANDWIDTH, {"mb_per_second": value, "low": low, "high": high})
