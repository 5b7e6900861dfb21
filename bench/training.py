"""What a worker does: trains window by window, saying each on the event stream."""

import hashlib
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench import events, inputs
from bench.mxnet_import import mx
from bench.options import Options
from bench.shares import portion
from bench.store_client import any_votes
from bench.tf32 import rounds_to_tf32
from bench.worker import Worker, build, step

_SAY_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a worker has done; windows are this rank's, warm-up included.

    `weight_hash` is equal on every rank after a synchronous job, or it trained several networks.
    """

    rank: int
    num_workers: int
    windows: tuple[dict[str, Any], ...]
    accuracy: float | None = None
    weight_hash: str = ""


def measure(
    worker: Worker, batches: Iterator[inputs.Batch], steps: int, index: int
) -> dict[str, Any]:
    """Times `steps` steps between two waits for all of MXNet's work; none lies between them."""
    mx.nd.waitall()
    cpu, start = time.process_time(), time.perf_counter()
    for _ in range(steps):
        losses = step(worker, next(batches))
    mx.nd.waitall()
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu
    loss = sum(float(part.mean().asscalar()) for part in losses) / len(losses)
    if not math.isfinite(loss):
        raise FloatingPointError(f"the loss is {loss} after window {index}; try a smaller --lr")
    return {
        "index": index,
        "seconds": seconds,
        "end": time.time(),
        "cpu_seconds": cpu_seconds,
        "images": steps * worker.options.batch_size,
        "steps": steps,
        "loss": loss,
    }


def validate(worker: Worker) -> tuple[int, int]:
    """Correct and total of this rank's share of the validation images."""
    options = worker.options
    mine = portion(options.data_val, worker.rank, worker.num_workers)
    batch_size = max(1, min(mine.fewest, options.batch_size))
    iterator = inputs.record_iterator(options, mine, batch_size, shuffle=False)
    correct = total = 0
    said = time.monotonic()
    for batch in iterator:
        kept = len(batch.label[0]) - batch.pad
        data = batch.data[0].as_in_context(worker.contexts[0]).astype(options.array_dtype)
        guesses = worker.net(data).astype("float32").argmax(axis=1).asnumpy()[:kept]
        correct += int((guesses == batch.label[0].asnumpy()[:kept]).sum())
        total += kept
        if time.monotonic() - said > _SAY_SECONDS:
            said = time.monotonic()
            _say(worker, "validating", {"total": total})
    return correct, total


def _window_steps(options: Options, num_workers: int) -> tuple[int, ...]:
    """Steps of every window of one epoch; every worker of a job gets the same."""
    if options.benchmark:
        return (options.steps_per_window,) * (options.warmup_windows + options.windows)
    images = options.num_examples or portion(options.data_train, 0, num_workers).epoch
    steps = max(1, images // (options.batch_size * num_workers))
    whole, rest = divmod(steps, options.steps_per_window)
    return (options.steps_per_window,) * whole + ((rest,) if rest else ())


def _batches(worker: Worker) -> Iterator[inputs.Batch]:
    options = worker.options
    if options.benchmark:
        yield from inputs.synthetic(options, worker.contexts, worker.rank)
    mine = portion(options.data_train, worker.rank, worker.num_workers)
    iterator = inputs.record_iterator(options, mine, options.batch_size, shuffle=True)
    for data, label in inputs.forever(iterator):
        yield inputs.split(data.astype(options.array_dtype), label, worker.contexts)


def train(options: Options, instructions: str = "") -> Summary:
    """Trains until the windows asked for are measured, the accuracy is reached or epochs end.

    `instructions` are those that the processor computes with, to be told.
    """
    worker = build(options)
    windows: list[dict[str, Any]] = []
    wanted = options.warmup_windows + options.windows if options.windows else math.inf
    accuracy = None
    steps_of_epoch = _window_steps(options, worker.num_workers)
    batches = _batches(worker)
    _say(worker, "ready", {**_facts(worker), "instructions": instructions})
    for epoch in range(options.num_epochs):
        for steps in steps_of_epoch:
            if len(windows) < wanted:
                windows.append(measure(worker, batches, steps, len(windows)))
                _say(worker, "window", windows[-1])
                _show_progress(worker, epoch, windows)
        _save(worker, epoch)
        if options.data_val:
            accuracy, reached = _end_of_epoch(worker, epoch)
        if len(windows) >= wanted or (options.data_val and reached):
            break
    return Summary(
        rank=worker.rank,
        num_workers=worker.num_workers,
        windows=tuple(windows),
        accuracy=accuracy,
        weight_hash=_weight_hash(worker),
    )


def _end_of_epoch(worker: Worker, epoch: int) -> tuple[float, bool]:
    """This rank's accuracy, and whether every rank's is above the one to stop at."""
    correct, total = validate(worker)
    _say(worker, "epoch", {"epoch": epoch, "correct": correct, "total": total})
    accuracy = correct / total
    print(f"epoch {epoch}: validation accuracy {accuracy:.3f}", file=sys.stderr, flush=True)
    below = accuracy <= worker.options.stop_accuracy
    return accuracy, not any_votes(worker.kvstore, ballot=epoch, vote=below)


def _facts(worker: Worker) -> dict[str, Any]:
    parameters = [p for p in worker.net.collect_params().values() if p.grad_req != "null"]
    return {
        "num_workers": worker.num_workers,
        "worker_batch": worker.options.batch_size,
        "devices": worker.options.devices,
        "arrays": len(parameters),
        "mxnet": mx.__version__,
        "tf32": bool(worker.options.gpus) and rounds_to_tf32(worker.contexts[0]),
    }


def _show_progress(worker: Worker, epoch: int, windows: list[dict[str, Any]]) -> None:
    last, every = windows[-1], worker.options.disp_batches
    batches = sum(window["steps"] for window in windows)
    if batches // every == (batches - last["steps"]) // every:
        return
    rate = last["images"] / last["seconds"]
    line = f"rank {worker.rank} epoch {epoch} batch {batches}: {rate:.2f} images/s on this worker"
    print(f"{line}, loss {last['loss']:.3f}", file=sys.stderr, flush=True)


def _save(worker: Worker, epoch: int) -> None:
    """Writes PREFIX-symbol.json and PREFIX-NNNN.params, which MXNet loads, from rank 0."""
    prefix = worker.options.model_prefix
    if not prefix or worker.rank != 0:
        return
    worker.net(mx.nd.zeros((1, *worker.options.image_shape), ctx=worker.contexts[0]))
    worker.net.export(prefix, epoch=epoch + 1)


def _weight_hash(worker: Worker) -> str:
    mx.nd.waitall()
    digest = hashlib.blake2b(digest_size=8)
    for parameter in worker.net.collect_params().values():
        if parameter.grad_req != "null":
            digest.update(parameter.data(worker.contexts[0]).asnumpy().data)
    return digest.hexdigest()


def _say(worker: Worker, kind: str, values: dict[str, Any]) -> None:
    events.say(events.Event(kind=kind, rank=worker.rank, values=values))
