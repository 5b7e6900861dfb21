"""What a person sees while a sweep goes on."""

from bench.events import Event
from im2rec_tools.bars import Bars
from plots.table import significant
from results.rates import rate_of
from results.record import Record, Started


class SweepScreen:
    """Follows a sweep: a bar over its points and one over the windows of the point that runs."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._started: Started | None = None
        self._windows = 0
        self._epochs: dict[int, list[tuple[int, int]]] = {}

    def show(self, update: Started | Event | Record) -> None:
        """Takes what the sweep yields."""
        if isinstance(update, Started):
            self._begin(update)
        elif isinstance(update, Event):
            self._move(update)
        else:
            self._end(update)

    def _begin(self, started: Started) -> None:
        self._started, self._windows, self._epochs = started, 0, {}
        self._bars.show("runs", started.number - 1, started.total, started.trial.name)

    def _move(self, event: Event) -> None:
        assert self._started is not None
        trial = self._started.trial
        if event.kind == "epoch":
            self._epoch(event)
        if event.kind != "window" or event.rank != 0 or not trial.windows:
            return
        self._windows += 1
        warm = " (warm-up)" if self._windows <= trial.warmup_windows else ""
        note = f"{event.values['seconds']:.2f} s a window{warm}"
        self._bars.show(trial.name, self._windows, trial.warmup_windows + trial.windows, note)

    def _epoch(self, event: Event) -> None:
        """Says the accuracy over all ranks' shares, once the last has told its own."""
        assert self._started is not None
        trial, epoch = self._started.trial, event.values["epoch"]
        shares = self._epochs.setdefault(epoch, [])
        shares.append((event.values["correct"], event.values["total"]))
        if len(shares) < trial.workers:
            return
        accuracy = sum(correct for correct, _ in shares) / sum(total for _, total in shares)
        self._bars.line(f"{trial.name}: epoch {epoch}, validation accuracy {accuracy:.3f}")
        if not trial.windows:
            note = f"accuracy {accuracy:.3f}, until each worker's share is above "
            note += f"{trial.stop_accuracy:g}"
            self._bars.show(f"{trial.name} epochs", epoch + 1, trial.num_epochs, note)

    def _end(self, record: Record) -> None:
        assert self._started is not None
        started, name = self._started, record.trial.name
        self._bars.remove(name)
        self._bars.remove(f"{name} epochs")
        self._bars.show("runs", started.number, started.total)
        if record.status != "ok":
            self._bars.line(f"{name}: {record.status}: {record.message}")
            return
        reached = "" if record.accuracy is None else f", validation accuracy {record.accuracy:.3f}"
        self._bars.line(f"{name}: {significant(rate_of(record))} images/s{reached}")
