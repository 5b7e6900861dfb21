"""The training loop of a worker: epochs, timed windows, validation, stopping."""

import itertools
import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench import events
from bench.data import loader, page_cache
from bench.data.partition import worker_partition
from bench.data.shards import shards
from bench.engines.engine import Comm
from bench.errors import SpecError, error_line
from bench.notes import Note, NoteKind, texts
from bench.statistics.budget import LEAST_WINDOWS, Budget, end_reason, is_checkpoint
from bench.statistics.stopping_rule import per_image_seconds
from bench.statistics.stopwatch import Stopwatch
from bench.training import validation
from bench.training.backend import Backend
from bench.training.batch import epoch_images, epoch_steps
from bench.training.optimizer import rate_notes
from bench.training.options import Options
from bench.training.progress import ProgressLines, training_progress
from im2rec_tools.terminal import echo

_REASONS = ("", "precision", "seconds")
# The bandwidth of a 1 Gbit/s link; on faster links the servers' copies limit the rate.
_MANY_BYTES_PER_SECOND = 125e6
# MXNet's tutorial advises against a batch far above the number of classes, and uses 8192 for 1000.
_MANY_CLASSES = 10
# Multiple of the loss of random guessing.
_ABSURD = 10
# Probes of a worker alone, whose median is a baseline, and of each worker of several.
_PROBES_ALONE, _PROBES = 3, 8
_REPORT_SECONDS = 5.0
# Between the seeds of two epochs; above any number of ranks.
_EPOCH_SEED = 100_003


def window_steps(worker: Backend) -> tuple[int, ...]:
    """Return the steps of each window of an epoch; the same for every worker of a job."""
    options = worker.options
    if not options.has_epochs:
        return (options.steps_per_window,) * (options.warmup_windows + options.windows)
    steps = epoch_steps(options, worker.part.whole, worker.num_workers)
    whole, rest = divmod(steps, options.steps_per_window)
    return (options.steps_per_window,) * whole + ((rest,) if rest else ())


def worker_batches(worker: Backend) -> Generator[Any]:
    """Yield synthetic or real batches on the worker's devices, without end."""
    options = worker.options
    if options.benchmark:
        yield from worker.synthetic()
    mine = worker_partition(options.data_train, worker.rank, worker.num_workers)
    orders = loader.shuffled_orders(options, mine)
    for buffer in loader.training_batches(options, mine, orders, worker.buffer, worker.reader):
        yield worker.load(buffer)


@dataclass(frozen=True, kw_only=True)
class TrainingSummary:
    """Results of a worker; windows are this rank's, including warm-up.

    ended           why measuring ended: a value of `stop_reason`, or 'epochs'
    weight_hash     equal on all ranks after a synchronous job; else they trained different networks
    joined          whether `accuracy` is that of all workers, not of this rank alone
    notes           caveats of the results
    device_memory   peak_device_memory_bytes, if it trained on GPUs
    own_seconds     probes of forward and backward after the last window, on real images
    """

    rank: int
    num_workers: int
    windows: tuple[dict[str, Any], ...]
    ended: str = ""
    accuracy: float | None = None
    joined: bool = False
    weight_hash: str = ""
    notes: tuple[Note, ...] = ()
    device_memory: Mapping[str, int] = field(default_factory=dict)
    own_seconds: tuple[float, ...] = ()


def budget_of(options: Options, comm: Comm) -> Budget:
    """Return the precision and the limits of measuring.

    Asynchronous jobs run every window.
    """
    return Budget(
        precision=options.precision if comm.waits else 0.0,
        windows=options.windows,
        seconds=options.budget_seconds,
    )


# Returns the first worker's value; all workers call it with a new number.
Broadcast = Callable[[int, float], float]


def stop_reason(
    broadcast: Broadcast | None, windows: Sequence[dict[str, Any]], budget: Budget, warmup: int
) -> str:
    """Return why measuring ends: 'windows', 'precision' or 'seconds'; '' to continue.

    The workers of a synchronous job wait for each other in every window, so their windows agree.
    The first worker decides, and all stop after the same window. Without `broadcast`, each worker
    decides for itself.
    """
    found = end_reason(per_image_seconds(windows), budget, warmup)
    measured = len(windows) - warmup
    only_windows = not (budget.precision or budget.seconds)
    if broadcast is None or only_windows or measured >= budget.windows:
        return found
    if measured < 1 or (measured >= LEAST_WINDOWS and not is_checkpoint(measured)):
        return ""
    return _REASONS[round(broadcast(measured, _REASONS.index(found)))]


def measure(
    facts: Mapping[str, Any],
    window: Callable[[int], dict[str, Any]],
    stop: Callable[[Sequence[dict[str, Any]]], str],
    progress: ProgressLines,
    rank: int = 0,
) -> TrainingSummary:
    """Measure and report windows without training until `stop` returns a reason."""
    events.say("ready", facts, rank=rank)
    windows: list[dict[str, Any]] = []
    ended = ""
    while not ended:
        windows.append(window(len(windows)))
        events.say("window", windows[-1], rank=rank)
        progress.show(len(windows), rank)
        ended = stop(windows)
    return TrainingSummary(
        rank=rank, num_workers=facts["num_workers"], windows=tuple(windows), ended=ended
    )


def batch_notes(options: Options, comm: Comm, whole: int, images: int) -> Iterator[Note]:
    """Yield notes on a global batch of `whole` images, with `images` per epoch."""
    if whole > images:
        yield Note(NoteKind.BATCH_ABOVE_EPOCH, {"batch": whole, "images": images})
    if options.windows or not comm.waits or options.lr_epochs.warmup:
        return  # a measurement of throughput, no global batch, or the remedy
    if whole > _MANY_CLASSES * options.num_classes:
        yield Note(NoteKind.BATCH_ABOVE_CLASSES, {"batch": whole, "classes": options.num_classes})


def learning_notes(options: Options, comm: Comm, whole: int) -> Iterator[Note]:
    """Yield notes on the learning rate of a job that trains all its epochs.

    Measurements of throughput, fine-tuning and continued jobs have other rates for other reasons,
    and an asynchronous kvstore has no global batch.
    """
    other = options.windows or options.benchmark or options.pretrained or options.load_epoch
    if not other and comm.waits:
        warmup = options.lr_epochs.warmup
        yield from rate_notes(options.optimizer, lr=options.lr, batch=whole, warmup=warmup)


def traffic_notes(wire_bytes: int, windows: Sequence[Mapping[str, Any]]) -> Iterator[Note]:
    """Yield a note if a step computes too little for the data it exchanges.

    `wire_bytes`: bytes per step that a worker sends, which are as many as it receives.
    """
    if not wire_bytes or not windows:
        return
    last = windows[-1]
    seconds = last["cpu_seconds"] / last["steps"]
    megabytes = 2 * wire_bytes / 1e6
    if megabytes * 1e6 > _MANY_BYTES_PER_SECOND * seconds:
        yield Note(NoteKind.LITTLE_COMPUTING, {"megabytes": megabytes, "seconds": seconds})


def loss_notes(classes: int, windows: Sequence[Mapping[str, Any]]) -> Iterator[Note]:
    """Yield a note on a finite but absurd loss; random guessing gives ln(classes)."""
    losses = [window["loss"] for window in windows]
    if losses and losses[-1] > max(losses[0], _ABSURD * math.log(classes)):
        yield Note(NoteKind.LOSS_ROSE, {"first": losses[0], "last": losses[-1]})


def print_notes(notes: Iterable[Note]) -> None:
    """Print each note to stderr."""
    for line in texts(notes):
        echo(f"note: {line}", err=True)


def is_probe_due(worker: Backend, windows: int) -> bool:
    """Return whether to probe this worker's computation before window `windows`.

    With real images, a probe would give the reader time that it does not have in training. A worker
    alone is probed only for a record. With epochs, the random numbers that a probe draws, as for
    dropout, would keep training from continuing exactly.
    """
    options = worker.options
    alone = worker.num_workers == 1
    recorded = not alone or (bool(options.windows) and events.has_stream())
    measured = windows - options.warmup_windows
    timed = options.benchmark and not options.has_epochs
    due = timed and recorded and worker.comm.waits
    return due and 0 <= measured < _probes(worker)


def _probes(worker: Backend) -> int:
    return _PROBES_ALONE if worker.num_workers == 1 else _PROBES


def final_probes(worker: Backend, feed: Generator[Any]) -> tuple[float, ...]:
    """Probe this worker's computation on a batch of real images after the last window.

    Ends the reader first, whose threads would take the probes' time. All workers must call this.
    """
    options = worker.options
    if options.benchmark or not options.windows or not worker.comm.waits:
        return ()
    batch = next(feed)
    feed.close()
    return tuple(compute_seconds(worker, batch) for _ in range(_probes(worker)))


def compute_seconds(worker: Backend, batch: Any) -> float:
    """Return the seconds of forward and backward alone, without exchange or update.

    Returns when all workers are done, so that the next window starts for all at once.
    """
    worker.wait()
    start = time.perf_counter()
    worker.compute(batch)
    worker.wait()
    seconds = time.perf_counter() - start
    worker.barrier()
    return seconds


def traced(options: Options, numbers: range) -> range:
    """Return the batches of a window, counted from 1, that --profile-batches names."""
    first, last = options.profile_batches or (0, -1)
    return range(max(first, numbers.start), min(last + 1, numbers.stop))


def time_window(
    worker: Backend, feed: Iterator[Any], steps: int, index: int, before: int
) -> dict[str, Any]:
    """Time `steps` steps; wait for the work only before and after them.

    `before`: batches of the windows before this one, the last of which may be shorter.
    """
    numbers = range(before + 1, before + steps + 1)
    profiled = traced(worker.options, numbers)
    worker.wait()
    waited = worker.reader.waited
    worker.delays.start()
    clock = Stopwatch()
    for number in numbers:
        batch = next(feed)
        if number in profiled[:1]:
            worker.start_trace()
        losses = worker.step(batch, number)
        if number in profiled[-1:]:
            worker.stop_trace()
    worker.wait()
    window = clock.window(index, steps * worker.options.batch_size, steps)
    window |= worker.delays.end()
    window["input_wait"] = worker.reader.waited - waited
    loss = worker.loss(losses)
    if not math.isfinite(loss):
        raise FloatingPointError(
            error_line(
                "loss",
                expected="a finite number",
                got=f"{loss} after {index + 1} window{'s' * (index > 0)}",
                fix="Use a smaller --lr",
            )
        )
    return window | {"loss": loss}


def _probed_window(
    worker: Backend, feed: Iterator[Any], steps: int, index: int, before: int
) -> dict[str, Any]:
    """Time a window, after a probe of this worker's computation if one is due."""
    if not is_probe_due(worker, index):
        return time_window(worker, feed, steps, index, before)
    first = next(feed)
    own = compute_seconds(worker, first)
    worker.delays.restart()
    found = time_window(worker, itertools.chain([first], feed), steps, index, before)
    return found | {"own_seconds": own}


def validate(worker: Backend) -> validation.Score:
    """Return this rank's score on its share of the validation images."""
    options = worker.options
    mine = worker_partition(options.data_val, worker.rank, worker.num_workers)
    size = min(mine.images, options.batch_size)
    images = loader.validation_batches(options, mine, size, worker.buffer)
    reported = [time.monotonic()]

    def report(total: int) -> None:
        if time.monotonic() - reported[-1] > _REPORT_SECONDS:
            reported.append(time.monotonic())
            _emit(worker, "validating", {"total": total})

    return validation.score_batches(images, worker.scores, options.top_k, report)


def train(
    options: Options,
    build: Callable[[Options], Backend],
    facts: Mapping[str, Any] | None = None,
) -> TrainingSummary:
    """Train until the windows, the stop accuracy or the last epoch is reached.

    `build` joins the job's other workers and builds the network. `facts`: additional facts for this
    worker's record.
    """
    # Before the rendezvous, so that no worker has started to read.
    found = (
        {}
        if options.benchmark
        else page_cache.describe(page_cache.residency(shards(options.data_train)))
    )
    worker = build(options)
    check_validation(options, worker.num_workers)
    if options.model_prefix and worker.rank == 0:
        worker.check_saving()
    with worker.profile():
        windows, ended, accuracy, own = _epochs(worker, {**found, **(facts or {})})
    return TrainingSummary(
        rank=worker.rank,
        num_workers=worker.num_workers,
        windows=tuple(windows),
        ended=ended,
        accuracy=accuracy,
        joined=worker.comm.waits,
        own_seconds=own,
        weight_hash=worker.digest(),
        device_memory=worker.device_memory(),
        notes=_notes(worker, windows) if worker.rank == 0 else (),
    )


def check_validation(options: Options, workers: int) -> None:
    """Raise SpecError if a worker of the job has no validation image."""
    if options.data_val and not worker_partition(options.data_val, 0, workers).fewest:
        raise SpecError(
            error_line(
                options.data_val,
                expected=f"at least one validation image per worker ({workers} workers)",
                fix="Add images, or leave out --data-val",
            )
        )


def _notes(worker: Backend, windows: list[dict[str, Any]]) -> tuple[Note, ...]:
    found: list[Note] = []
    if not worker.options.gpus:  # on GPUs, the CPU time is not the computation
        found += traffic_notes(worker.wire_bytes(), windows)
    rose = [*loss_notes(worker.options.num_classes, windows)]
    if not worker.options.benchmark:
        images = epoch_images(worker.options, worker.num_workers)
        found += batch_notes(worker.options, worker.comm, worker.part.whole, images)
        if not rose:
            found += learning_notes(worker.options, worker.comm, worker.part.whole)
    found += rose
    print_notes(found)
    return tuple(found)


def _epochs(
    worker: Backend, found: dict[str, Any]
) -> tuple[list[dict[str, Any]], str, float | None, tuple[float, ...]]:
    """Train; return the windows, why measuring ended, last accuracy and probes.

    `found`: additional facts for the event `ready`.
    """
    options, accuracy, reached, ended = worker.options, None, False, ""
    windows: list[dict[str, Any]] = []
    trained = 0  # batches
    # Asynchronous workers stop independently.
    together = worker.comm.spans and worker.comm.waits
    broadcast, budget = worker.broadcast if together else None, budget_of(options, worker.comm)
    steps_of_epoch, feed = window_steps(worker), worker_batches(worker)
    progress = training_progress(options, len(steps_of_epoch))
    _emit(worker, "ready", _worker_facts(worker) | found)
    clock = Stopwatch()
    for epoch in range(options.load_epoch, max(options.num_epochs, options.load_epoch + 1)):
        seed_epoch(worker, epoch)
        before, seen = len(windows), (0, 0)
        shown = before
        for steps in steps_of_epoch:
            windows.append(_probed_window(worker, feed, steps, len(windows), trained))
            trained += steps
            _emit(worker, "window", windows[-1])
            shown = _show_throughput(worker, epoch, windows, before, shown)
            progress.show(len(windows), worker.rank)
            if hits := worker.hits():
                seen = seen[0] + hits[0], seen[1] + hits[1]
            if options.windows:
                ended = stop_reason(broadcast, windows, budget, options.warmup_windows)
            if ended:
                break
        over = bool(ended) or epoch + 1 >= options.num_epochs
        if over:
            _emit(worker, "measured", {})
        if options.has_epochs:
            _show_epoch(worker, epoch, windows[before:], sum(steps_of_epoch))
        if options.has_epochs and seen[1]:
            _show_accuracy(worker, epoch, *seen)
        if over or (epoch + 1) % options.save_period == 0:
            _save(worker, epoch, trained)
        if options.data_val and (over or (epoch + 1) % options.val_freq == 0):
            accuracy, reached = _validate_epoch(worker, epoch, clock)
        if over or reached:
            break
    if options.windows and options.precision and not ended:
        ended = "epochs"
    return windows, ended, accuracy, final_probes(worker, feed)


def _validate_epoch(worker: Backend, epoch: int, clock: Stopwatch) -> tuple[float, bool]:
    """Return the accuracy, and whether it exceeds the stop accuracy.

    It is that of all workers together, or with an asynchronous kvstore that of this rank; then
    every rank must exceed the stop accuracy. `clock` started with the first batch.
    """
    options, found = worker.options, validate(worker)
    values: dict[str, Any] = {"epoch": epoch, "seconds": clock.seconds}
    values |= {"correct": found.correct, "total": found.total}
    values |= {"in_top_k": found.in_top_k} if options.top_k else {}
    _emit(worker, "epoch", values)
    apart = not worker.comm.waits and worker.num_workers > 1
    found = found if apart else joined_score(worker, found, epoch)
    text = validation.score_text(found, k=options.top_k, losses=options.loss)
    if apart or worker.rank == 0:
        who = f"rank {worker.rank} " if apart else ""
        of = "" if apart or worker.num_workers == 1 else f" ({found.total:,} images of all workers)"
        echo(f"{who}epoch {epoch}: {text}{of}", err=True)
    accuracy = found.correct / found.total
    if options.stop_accuracy >= 1:
        return accuracy, False
    below = accuracy <= options.stop_accuracy
    if not apart:
        return accuracy, not below
    return accuracy, not worker.any_worker(epoch, below)


def joined_score(worker: Backend, own: validation.Score, epoch: int) -> validation.Score:
    """Return the score of all workers of a synchronous job together."""
    millionths = round(own.loss * 1e6)
    numbers = (own.total, own.correct, own.in_top_k, millionths)
    total, correct, in_top_k, loss = worker.sums(1 + epoch, numbers)
    return validation.Score(total=total, correct=correct, in_top_k=in_top_k, loss=loss / 1e6)


def seed_epoch(worker: Backend, epoch: int) -> None:
    """Seed the random numbers, such as dropout's, for this epoch.

    They do not depend on the epochs before it, which an interrupted training has seen.
    """
    if epoch:
        worker.seed(worker.options.seed * 1000 + worker.rank + 1 + epoch * _EPOCH_SEED)


def _worker_facts(worker: Backend) -> dict[str, Any]:
    sent = worker.wire_bytes()
    return {
        "num_workers": worker.num_workers,
        "worker_batch": worker.options.batch_size,
        "devices": worker.options.devices,
        **({"bytes_each_way": sent} if sent else {}),
        **worker.facts(),
    }


def _show_throughput(
    worker: Backend, epoch: int, windows: list[dict[str, Any]], before: int, shown: int
) -> int:
    """Print the throughput since the last line, if a line is due.

    Returns the number of windows printed so far. Batches are counted per epoch, after the `before`
    windows of earlier epochs, as in Speedometer. Warm-up windows are excluded, as Speedometer
    excludes an epoch's first batch.
    """
    last, every = windows[-1], worker.options.disp_batches
    batches = sum(window["steps"] for window in windows[before:])
    if batches // every == (batches - last["steps"]) // every:
        return shown
    since = windows[max(shown, worker.options.warmup_windows) :] or windows[shown:]
    rate = sum(one["images"] for one in since) / sum(one["seconds"] for one in since)
    line = f"rank {worker.rank} epoch {epoch} batch {batches}: {rate:.2f} images/s on this worker"
    echo(f"{line}, loss {last['loss']:.3f}", err=True)
    return len(windows)


def _show_accuracy(worker: Backend, epoch: int, correct: int, images: int) -> None:
    """Print an epoch's training accuracy on this rank's images, in upstream's format."""
    line = f"rank {worker.rank} Epoch[{epoch}] Train-accuracy={correct / images:.6f}"
    echo(line, err=True)


def _show_epoch(worker: Backend, epoch: int, windows: Sequence[dict[str, Any]], whole: int) -> None:
    """Print a summary of an epoch with these windows; `whole` is the steps per epoch."""
    steps, seconds = (sum(one[what] for one in windows) for what in ("steps", "seconds"))
    rate = worker.rate(epoch - worker.options.load_epoch + steps / whole)
    loss = sum(one["loss"] * one["steps"] for one in windows) / steps
    line = f"rank {worker.rank} epoch {epoch}: {steps} batches in {seconds:.1f} s"
    echo(f"{line}, final learning rate {rate:.4g}, loss {loss:.3f}", err=True)


def _save(worker: Backend, epoch: int, batches: int) -> None:
    """Save a checkpoint after an epoch and this number of steps.

    All workers must call this.
    """
    options = worker.options
    if not options.model_prefix:
        return
    if saved := worker.save(epoch + 1, batches):
        echo(f"saved {saved}", err=True)


def _emit(worker: Backend, kind: str, values: dict[str, Any]) -> None:
    events.say(kind, values, rank=worker.rank)
