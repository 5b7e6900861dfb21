"""What a worker does: trains window by window, saying each on the event stream."""

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench import (
    batches,
    cache,
    checkpoint,
    doubts,
    events,
    inputs,
    monitor,
    probe,
    validation,
    weights,
)
from bench.errors import SpecError
from bench.feed import batches_of, window_steps
from bench.kvstores import is_async
from bench.mxnet_import import mx
from bench.notes import Note
from bench.options import Options
from bench.profiling import profiled
from bench.shards import shards
from bench.shares import portion
from bench.stopping import budget_of, decided
from bench.stopwatch import Stopwatch
from bench.store_client import any_votes
from bench.tf32 import rounds_to_tf32
from bench.worker import Worker, build, gradients, update
from im2rec_tools.terminal import echo

_SAY_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a worker has done; windows are this rank's, warm-up included.

    ended           why no more were measured: as in stopping.py, or 'epochs'
    weight_hash     equal on every rank after a synchronous job, or it trained several networks
    notes           what a reader of its numbers should know
    """

    rank: int
    num_workers: int
    windows: tuple[dict[str, Any], ...]
    ended: str = ""
    accuracy: float | None = None
    weight_hash: str = ""
    notes: tuple[Note, ...] = ()


def measure(worker: Worker, feed: Iterator[inputs.Batch], steps: int, index: int) -> dict[str, Any]:
    """Times `steps` steps between two waits for all of MXNet's work; none lies between them."""
    mx.nd.waitall()
    clock = Stopwatch()
    for number in range(steps):
        batch = next(feed)
        losses = gradients(worker, batch)
        monitor.look(worker, batch, index * worker.options.steps_per_window + number + 1)
        update(worker)
    mx.nd.waitall()
    window = clock.window(index, steps * worker.options.batch_size, steps)
    loss = sum(float(part.mean().asscalar()) for part in losses) / len(losses)
    if not math.isfinite(loss):
        raise FloatingPointError(f"the loss is {loss} after window {index}; try a smaller --lr")
    return window | {"loss": loss}


def _window(worker: Worker, feed: Iterator[inputs.Batch], steps: int, index: int) -> dict[str, Any]:
    """A window, after a probe of what this worker needs by itself where one is due."""
    if not probe.is_due(worker, index):
        return measure(worker, feed, steps, index)
    first = next(feed)
    own = probe.own_seconds(worker, first)
    return measure(worker, itertools.chain([first], feed), steps, index) | {"own_seconds": own}


def validate(worker: Worker) -> validation.Score:
    """This rank's score on its share of the validation images."""
    options = worker.options
    mine = portion(options.data_val, worker.rank, worker.num_workers)
    images = inputs.once(options, mine, min(mine.images, options.batch_size))
    heard = [time.monotonic()]

    def scores_of(data: Any) -> Any:
        images = data.as_in_context(worker.contexts[0]).astype(options.array_dtype)
        return worker.net(images).astype("float32").asnumpy()

    def said(total: int) -> None:
        if time.monotonic() - heard[-1] > _SAY_SECONDS:
            heard.append(time.monotonic())
            _say(worker, "validating", {"total": total})

    return validation.over(images, scores_of, options.top_k, said)


def train(options: Options, told: Mapping[str, Any] | None = None) -> Summary:
    """Trains until the windows asked for are measured, the accuracy is reached or epochs end.

    `told` are facts that the record of this worker is to have besides its own.
    """
    # Before the workers meet, so that none has begun to read.
    found = {} if options.benchmark else cache.facts(cache.cached(shards(options.data_train)))
    worker = build(options)
    _check_validation(worker)
    if options.model_prefix and worker.rank == 0:
        checkpoint.make_room(options.model_prefix)
        checkpoint.check_network(
            worker.net,
            options.model_prefix,
            options.image_shape,
            loaded=bool(options.load_epoch),
        )
    with profiled(worker):
        windows, ended, accuracy = _epochs(worker, {**found, **(told or {})})
    return Summary(
        rank=worker.rank,
        num_workers=worker.num_workers,
        windows=tuple(windows),
        ended=ended,
        accuracy=accuracy,
        weight_hash=weights.digest(worker),
        notes=_notes(worker, windows) if worker.rank == 0 else (),
    )


def _check_validation(worker: Worker) -> None:
    options = worker.options
    if options.data_val and not portion(options.data_val, 0, worker.num_workers).fewest:
        raise SpecError(
            f"{options.data_val}: has too few images to validate on, every one of the "
            f"{worker.num_workers} workers needs at least one; leave out --data-val"
        )


def _notes(worker: Worker, windows: list[dict[str, Any]]) -> tuple[Note, ...]:
    found: list[Note] = []
    if not worker.options.gpus:  # where a processor only starts what GPUs compute
        found += doubts.of_traffic(worker.options, weights.gradient_bytes(worker), windows)
    if not worker.options.benchmark:
        images = batches.epoch_images(worker.options, worker.num_workers)
        found += doubts.of_batch(worker.options, worker.part.whole, images)
    found += doubts.of_loss(worker.options.num_classes, windows)
    doubts.show(found)
    return tuple(found)


def _epochs(
    worker: Worker, found: dict[str, Any]
) -> tuple[list[dict[str, Any]], str, float | None]:
    """All windows, why no more were measured, and the accuracy of the last validation.

    `found` is what is told of the data besides.
    """
    options, accuracy, reached = worker.options, None, False
    windows: list[dict[str, Any]] = []
    ended = ""
    # Asynchronous workers run on their own clocks and stop by them.
    store = None if is_async(options.kv_store) else worker.kvstore
    steps_of_epoch, feed = window_steps(worker), batches_of(worker)
    _say(worker, "ready", _facts(worker) | found)
    for epoch in range(options.load_epoch, max(options.num_epochs, options.load_epoch + 1)):
        before, seen = len(windows), (0, 0)
        shown = before
        for steps in steps_of_epoch:
            windows.append(_window(worker, feed, steps, len(windows)))
            _say(worker, "window", windows[-1])
            shown = _show_progress(worker, epoch, windows, before, shown)
            if worker.accuracy:
                correct, images = worker.accuracy.read()
                seen = seen[0] + correct, seen[1] + images
            if options.windows:
                ended = decided(store, windows, budget_of(options), options.warmup_windows)
            if ended:
                break
        over = bool(ended) or epoch + 1 >= options.num_epochs
        if not options.benchmark:
            _show_epoch(worker, epoch, windows[before:], sum(steps_of_epoch))
            _show_accuracy(worker, epoch, *seen)
        if over or (epoch + 1) % options.save_period == 0:
            _save(worker, epoch)
        if options.data_val and (over or (epoch + 1) % options.val_freq == 0):
            accuracy, reached = _end_of_epoch(worker, epoch)
        if over or reached:
            break
    if options.windows and options.precision and not ended:
        ended = "epochs"
    return windows, ended, accuracy


def _end_of_epoch(worker: Worker, epoch: int) -> tuple[float, bool]:
    """This rank's accuracy, and whether every rank's is above the one to stop at."""
    options, found = worker.options, validate(worker)
    values = {"epoch": epoch, "correct": found.correct, "total": found.total}
    values |= {"in_top_k": found.in_top_k} if options.top_k else {}
    _say(worker, "epoch", values)
    said = validation.text(found, k=options.top_k, loss=options.loss)
    who = f"rank {worker.rank} " if worker.num_workers > 1 else ""
    echo(f"{who}epoch {epoch}: {said}", err=True)
    accuracy = found.correct / found.total
    if options.stop_accuracy >= 1:
        return accuracy, False
    below = accuracy <= options.stop_accuracy
    return accuracy, not any_votes(worker.kvstore, ballot=epoch, vote=below)


def _facts(worker: Worker) -> dict[str, Any]:
    return {
        "num_workers": worker.num_workers,
        "worker_batch": worker.options.batch_size,
        "devices": worker.options.devices,
        "arrays": len(weights.trained(worker)),
        "mxnet": mx.__version__,
        "tf32": bool(worker.options.gpus) and rounds_to_tf32(worker.contexts[0]),
    }


def _show_progress(
    worker: Worker, epoch: int, windows: list[dict[str, Any]], before: int, shown: int
) -> int:
    """Print the throughput since the last line, if one is due; how many windows lines are about.

    Batches are those of the epoch, which `before` windows precede, as Speedometer counts them.
    Warm-up windows are left out, as it leaves out an epoch's first batch.
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


def _show_accuracy(worker: Worker, epoch: int, correct: int, images: int) -> None:
    """Print upstream's line of an epoch's training accuracy, on the images of this rank."""
    line = f"rank {worker.rank} Epoch[{epoch}] Train-accuracy={correct / images:.6f}"
    echo(line, err=True)


def _show_epoch(worker: Worker, epoch: int, windows: Sequence[dict[str, Any]], whole: int) -> None:
    """Tells of an epoch, of which these are the windows; `whole` is how many steps one has."""
    steps, seconds = (sum(one[what] for one in windows) for what in ("steps", "seconds"))
    schedule = worker.trainer.optimizer.lr_scheduler
    done = epoch - worker.options.load_epoch + steps / whole
    rate = schedule(done * schedule.updates) if schedule else worker.options.lr
    loss = sum(one["loss"] * one["steps"] for one in windows) / steps
    line = f"rank {worker.rank} epoch {epoch}: {steps} batches in {seconds:.1f} s"
    echo(f"{line}, learning rate {rate:.4g} at its end, loss {loss:.3f}", err=True)


def _save(worker: Worker, epoch: int) -> None:
    options = worker.options
    if options.model_prefix and worker.rank == 0:
        checkpoint.save(worker.net, options.model_prefix, epoch + 1)
        echo(f"saved {options.model_prefix}-{epoch + 1:04d}.params", err=True)


def _say(worker: Worker, kind: str, values: dict[str, Any]) -> None:
    events.say(events.Event(kind=kind, rank=worker.rank, values=values))
