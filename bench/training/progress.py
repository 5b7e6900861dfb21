"""Progress of a worker that was started by hand, with the time left."""

import time
from collections.abc import Callable

from bench import events
from bench.training.options import Options
from im2rec_tools.progress import job_seconds_left, time_left
from im2rec_tools.terminal import echo

_LINE_SECONDS = 10.0


class ProgressLines:
    """Lines such as '12 of 61 windows, about 20 s left', at most one every 10 s.

    They are not printed in a job, whose controller shows its progress. The estimate leaves out the
    first window, which includes MXNet's one-time work.
    """

    def __init__(
        self,
        total: int,
        *,
        per_epoch: int = 0,
        may_end_early: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare to count up to `total` windows.

        per_epoch      windows per epoch, to count epochs instead; 0 counts windows
        may_end_early  a stopping rule may end the work before the last window
        """
        self._total, self._per_epoch, self._early = total, per_epoch, may_end_early
        self._clock = clock
        self._begun: tuple[int, float] | None = None
        self._printed = 0.0

    def show(self, done: int, rank: int = 0) -> None:
        """Print a line on `done` finished windows if one is due."""
        if events.has_stream():
            return
        if line := self.line(done):
            echo(f"rank {rank}: {line}", err=True)

    def line(self, done: int) -> str:
        """Return the line on `done` finished windows; '' if none is due."""
        now = self._clock()
        if self._begun is None:
            self._begun, self._printed = (done, now), now
        if now - self._printed < _LINE_SECONDS or done >= self._total:
            return ""
        self._printed = now
        first, start = self._begun
        left = job_seconds_left(done - first, self._total - first, now - start)
        if left is None:
            return ""
        size = self._per_epoch or 1
        unit = "epochs" if self._per_epoch else "windows"
        word = "up to" if self._early else "about"
        return f"{done // size} of {self._total // size} {unit}, {word} {time_left(left)} left"


def training_progress(
    options: Options, per_epoch: int, clock: Callable[[], float] = time.monotonic
) -> ProgressLines:
    """Return the progress of training with `per_epoch` windows per epoch."""
    total = per_epoch * max(options.num_epochs - options.load_epoch, 1)
    if options.windows:
        return ProgressLines(
            min(total, options.warmup_windows + options.windows),
            may_end_early=bool(options.precision or options.budget_seconds),
            clock=clock,
        )
    return ProgressLines(
        total, per_epoch=per_epoch, may_end_early=options.stop_accuracy < 1, clock=clock
    )
