"""Live display of a sweep: a table of the workers above a progress bar."""

import time
from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench.events import Event
from bench.trial import Trial
from im2rec_tools.console import Screen, line
from im2rec_tools.progress import job_seconds_left, time_left
from im2rec_tools.terminal import echo
from plots.failed_repeats import failure_place
from plots.format import significant, status_text
from plots.tables.scaling import rate_unit
from plots.workers import rendezvous_text, worker_table
from results.progress import JobProgress, SweepUpdate
from results.rates import rate_of
from results.record import Identity, Record, RepeatStart

_REFRESH_SECONDS = 0.25
# The title, the header, the line on other workers, the sweep's bar, and the cursor's own line.
_OTHER_LINES = 5


class SweepScreen:
    """Display of a sweep: its workers in a table above a bar of its repeats.

    Without a terminal it prints a line at each change of state.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Screen(err=True)
        self._bar = Progress(
            TextColumn("runs {task.completed:.0f}/{task.total:.0f}"),
            BarColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}", markup=False),
            console=self._console,
        )
        self._started: RepeatStart | None = None
        self._glimpse: JobProgress | None = None
        self._shown: set[str] = set()
        self._epochs: dict[int, list[tuple[int, int]]] = {}
        self._epoch_end = (0, 0.0)  # epochs done, and the job's seconds by then
        self._refreshed = 0.0
        self._live: Live | None = None
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(self, console=self._console, auto_refresh=False)

    def __enter__(self) -> "SweepScreen":
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, update: SweepUpdate) -> None:
        """Show one update of a sweep."""
        if isinstance(update, RepeatStart):
            self._begin(update)
        elif isinstance(update, JobProgress):
            self._follow(update)
        elif isinstance(update, Record):
            self._end(update)
        elif isinstance(update, Event) and update.kind == "epoch":
            self._epoch(update)
        now = time.monotonic()
        if self._live is None or isinstance(update, Event):
            return
        if now - self._refreshed >= _REFRESH_SECONDS:
            self._refreshed = now
            self._live.refresh()

    def __rich__(self) -> RenderableType:
        """The part of the display below the printed lines."""
        if self._started is None:
            return ""
        if self._glimpse is None:
            return self._bar
        rows = self._console.height - _OTHER_LINES
        trial = self._started.trial
        left = job_time_left(trial, self._glimpse, self._epoch_end)
        return Group(worker_table(trial, self._glimpse, rows, left), self._bar)

    def _begin(self, started: RepeatStart) -> None:
        self._started, self._glimpse, self._shown, self._epochs = started, None, set(), {}
        self._epoch_end = (0, 0.0)
        trial = started.trial
        if not self._bar.tasks:
            self._bar.add_task("", left="")
        self._move(started.number - 1, started.name or trial.name)
        workers = f"{trial.workers} worker{'s' * (trial.workers > 1)}"
        hosts = f"{trial.hosts} host{'s' * (trial.hosts > 1)}"
        estimate = self._estimate()
        attempt = f", try {started.attempt}" * (started.attempt > 1)
        place = f"{started.number} of {started.total}{attempt}{', ' * bool(estimate)}{estimate}"
        self._print_state(f"started, {workers} on {hosts} ({place})")

    def _move(self, done: int, name: str) -> None:
        assert self._started is not None
        task, total = self._bar.task_ids[0], self._started.total
        left = self._estimate()
        self._bar.update(task, completed=done, total=total, description=name, left=left)

    def _estimate(self) -> str:
        """Return 'about 3 min left' for the sweep, or '' before a repeat has finished."""
        if self._started is None or self._started.seconds_left is None:
            return ""
        past = self._glimpse.seconds if self._glimpse else 0.0
        left = self._started.seconds_left - past
        return f"about {time_left(left)} left" if left > 0 else ""

    def _follow(self, glimpse: JobProgress) -> None:
        assert self._started is not None
        self._glimpse = glimpse
        self._bar.update(self._bar.task_ids[0], left=self._estimate())
        if glimpse.idle and "idle" not in self._shown:
            self._shown.add("idle")
            self._line(glimpse.idle)
        if glimpse.met_seconds is not None and "met" not in self._shown:
            self._shown.add("met")
            self._print_state(rendezvous_text(self._started.trial, glimpse.met_seconds))
        if "window" not in self._shown and all(one.windows for one in glimpse.workers):
            self._shown.add("window")
            left = job_time_left(self._started.trial, glimpse)
            estimate = f" ({left})" if left else ""
            self._print_state(f"first window after {glimpse.seconds:.0f} s{estimate}")

    def _print_state(self, text: str) -> None:
        """Print a line if no table shows the same."""
        if self._live is None:
            self._line(text)

    def _line(self, text: str) -> None:
        """Print a line on the running point, above the table."""
        assert self._started is not None
        text = f"{self._started.name or self._started.trial.name}: {text}"
        if self._live is None:
            echo(text, err=True)
        else:
            self._console.print(line(text))

    def _epoch(self, event: Event) -> None:
        """Print the accuracy of an epoch once all ranks have reported their shares."""
        assert self._started is not None
        trial, epoch = self._started.trial, event.values["epoch"]
        shares = self._epochs.setdefault(epoch, [])
        shares.append((event.values["correct"], event.values["total"]))
        if len(shares) < trial.workers:
            return
        accuracy = sum(correct for correct, _ in shares) / sum(total for _, total in shares)
        left = ""
        if self._glimpse is not None and not trial.total_windows:
            done = sum(len(one) == trial.workers for one in self._epochs.values())
            self._epoch_end = (done, self._glimpse.seconds)
            left = job_time_left(trial, self._glimpse, self._epoch_end)
        estimate = f" ({left})" if left else ""
        self._line(f"epoch {epoch}, validation accuracy {accuracy:.3f}{estimate}")

    def _end(self, record: Record) -> None:
        assert self._started is not None
        self._glimpse = None
        self._move(self._started.number, "")
        if record.status != "ok":
            parts = filter(None, (record.message, failure_place(record.failure)))
            self._line(f"{status_text(record.status)}: {'; '.join(parts)}")
            return
        reached = "" if record.accuracy is None else f", validation accuracy {record.accuracy:.3f}"
        name, scale = rate_unit(record.trial)
        scripted = " (simulated)" * record.trial.scripted
        self._line(f"{significant(rate_of(record) / scale)} {name}{reached}{scripted}")


def job_time_left(
    trial: Trial, glimpse: JobProgress, epoch_end: tuple[int, float] = (0, 0.0)
) -> str:
    """The time left of a repeat, such as 'about 20 s left'; '' if it is not known yet.

    `epoch_end` is the number of epochs done and the job's seconds at the end of the last one, for
    trials that end by epochs. 'up to' replaces 'about' if the trial may end early.
    """
    if glimpse.met_seconds is None:
        return ""
    if trial.total_windows:
        done = min((one.windows for one in glimpse.workers), default=0)
        seconds = glimpse.seconds - glimpse.met_seconds
        left = job_seconds_left(done, trial.total_windows, seconds)
    else:
        done, end = epoch_end
        total, seconds = trial.data.num_epochs, end - glimpse.met_seconds
        left = job_seconds_left(done, total, seconds, glimpse.seconds - end)
    if not left:
        return ""
    early = trial.measuring.precision or trial.data.stop_accuracy < 1
    budget = trial.measuring.budget_seconds
    if trial.total_windows and left > budget > 0:  # which counts from the end of the warm-up
        left, early = budget, True
    return f"{'up to' if early else 'about'} {time_left(left)} left"


def show_sweep(updates: Iterable[SweepUpdate]) -> list[Record]:
    """Run a sweep by taking its updates, and show each; return the failed repeats.

    The last try of a repeat decides.
    """
    newest: dict[Identity, Record] = {}
    with SweepScreen() as screen:
        for update in updates:
            screen.show(update)
            if isinstance(update, Record):
                newest[update.identity] = update
    return [one for one in newest.values() if one.status != "ok"]
