"""Slowdown: how much slower the windows may be that a stopping rule leaves unmeasured."""

import math
from functools import lru_cache

from bench.statistics.confidence import CONFIDENCE, student
from bench.trial import Trial
from results.windows import JobWindows

# By how much windows may become slower from the first to the last of a point's budget, as a
# fraction: heat, memory and neighbors slow machines down over minutes. Too little to be seen in the
# few windows of a quiet process.
ASSUMED_DRIFT = 0.03
_HALVINGS = 40


def hidden(trial: Trial, job: JobWindows) -> float:
    """By how much the mean window of the whole budget may be slower than those that count.

    As a fraction, for windows that drift by `ASSUMED_DRIFT` along a straight line. 0 if all windows
    of the budget were measured, and if there was no precision to end at.
    """
    windows, counted = trial.windows, len(job.counting)
    if not trial.precision or trial.asynchronous or windows < 2:
        return 0.0
    first = job.found.dropped - trial.warmup_windows
    middle = first + (counted - 1) / 2
    return max(0.0, ASSUMED_DRIFT * ((windows - 1) / 2 - middle) / (windows - 1))


@lru_cache(maxsize=4096)
def reach(freedom: float, bound: float) -> float:
    """How many standard errors the interval reaches beyond both ends of a bias of 0 to `bound`.

    Whichever of these two the bias is, a Student's t of so many degrees of freedom is within the
    interval 95 times in 100 (Imbens and Manski, Econometrica 72, 2004). `bound` is in standard
    errors. Without a bias it is the usual quantile, of 95 % on both sides; with a large one that of
    95 % on one side.
    """
    if bound <= 0:
        return student(freedom)
    from scipy.special import stdtr  # noqa: PLC0415 - it takes longer to load than most tasks run

    low, high = 0.0, student(freedom)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        held = stdtr(freedom, middle + bound) - stdtr(freedom, -middle)
        low, high = (middle, high) if held < CONFIDENCE else (low, middle)
    return high


def ends(size: float, freedom: float, slowdown: float) -> tuple[float, float]:
    """The interval of a throughput, as factors: its error on the logarithmic scale, and a bias."""
    further = reach(freedom, slowdown / size) * size if size else 0.0
    return math.exp(-further - slowdown), math.exp(further)
