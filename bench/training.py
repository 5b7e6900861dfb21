"""The training job of one worker: build, then window by window, saying each on the event stream."""

import hashlib
import math
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench import events, inputs
from bench.mxnet_import import mx
from bench.networks import NETWORKS
from bench.options import Options
from bench.shards import count_images, shards
from bench.store_client import any_votes, open_kvstore

_SAY_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class Job:
    """A network on this worker's devices and the means to train it."""

    options: Options
    contexts: list[Any]
    kvstore: Any
    rank: int
    num_workers: int
    net: Any
    loss_of: Any
    trainer: Any


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


class _NetWithLoss(mx.gluon.HybridBlock):  # type: ignore[misc]
    """Network and loss as one graph, so that one cached operator runs both."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net
        self.loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def hybrid_forward(self, F: Any, data: Any, label: Any) -> Any:  # noqa: N803 - Gluon's name
        return self.loss(self.net(data), label)


def contexts(options: Options) -> list[Any]:
    """This worker's devices."""
    return [mx.gpu(n) for n in options.gpus] or [mx.cpu(n) for n in range(options.cpus)]


def build(options: Options) -> Job:
    """Builds the network on every device and meets the other workers (the rendezvous)."""
    mx.random.seed(options.seed)
    kvstore = open_kvstore(options)
    net = NETWORKS[options.network].build(
        num_classes=options.num_classes, num_layers=options.num_layers
    )
    net.initialize(mx.init.Xavier(magnitude=2), ctx=contexts(options))
    net.cast(options.dtype)
    loss_of = _NetWithLoss(net)
    loss_of.hybridize(static_alloc=True, static_shape=True)
    settings = {"learning_rate": options.lr, "momentum": options.mom, "wd": options.wd}
    if options.dtype == "float16":
        settings["multi_precision"] = True
    return Job(
        options=options,
        contexts=contexts(options),
        kvstore=kvstore,
        rank=kvstore.rank if kvstore else 0,
        num_workers=kvstore.num_workers if kvstore else 1,
        net=net,
        loss_of=loss_of,
        trainer=mx.gluon.Trainer(net.collect_params(), "sgd", settings, kvstore=kvstore),
    )


def step(job: Job, batch: inputs.Batch) -> list[Any]:
    """One update over the global batch; the losses are still being computed when it returns."""
    with mx.autograd.record():
        losses = [job.loss_of(data, label) for data, label in zip(*batch, strict=True)]
    mx.autograd.backward(losses)
    # The servers add up every worker's gradients: the mean is over the global batch.
    job.trainer.step(job.options.batch_size * job.num_workers)
    return losses


def measure(job: Job, batches: Iterator[inputs.Batch], steps: int, index: int) -> dict[str, Any]:
    """Times `steps` steps between two waits for all of MXNet's work; none lies between them."""
    mx.nd.waitall()
    cpu, start = time.process_time(), time.perf_counter()
    for _ in range(steps):
        losses = step(job, next(batches))
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
        "images": steps * job.options.batch_size,
        "steps": steps,
        "loss": loss,
    }


def validate(job: Job) -> tuple[int, int]:
    """Correct and total of this rank's share of the validation images."""
    options = job.options
    share = inputs.smallest_share(count_images(shards(options.data_val)), job.num_workers)
    iterator = inputs.record_iterator(
        options,
        options.data_val,
        max(1, min(share, options.batch_size)),
        (job.rank, job.num_workers),
        shuffle=False,
    )
    correct = total = 0
    said = time.monotonic()
    for batch in iterator:
        kept = len(batch.label[0]) - batch.pad
        data = batch.data[0].as_in_context(job.contexts[0]).astype(options.dtype)
        guesses = job.net(data).argmax(axis=1).asnumpy()[:kept]
        correct += int((guesses == batch.label[0].asnumpy()[:kept]).sum())
        total += kept
        if time.monotonic() - said > _SAY_SECONDS:
            said = time.monotonic()
            _say(job, "validating", {"total": total})
    return correct, total


def _window_steps(options: Options, num_workers: int) -> tuple[int, ...]:
    """Steps of every window of one epoch; every worker of a job gets the same."""
    if options.benchmark:
        return (options.steps_per_window,) * (options.warmup_windows + options.windows)
    steps = max(1, inputs.count_examples(options) // (options.batch_size * num_workers))
    whole, rest = divmod(steps, options.steps_per_window)
    return (options.steps_per_window,) * whole + ((rest,) if rest else ())


def _batches(job: Job) -> Iterator[inputs.Batch]:
    options = job.options
    if options.benchmark:
        yield from inputs.synthetic(options, job.contexts, job.rank)
    part = (job.rank, job.num_workers)
    iterator = inputs.record_iterator(
        options, options.data_train, options.batch_size, part, shuffle=True
    )
    for data, label in inputs.forever(iterator):
        yield inputs.split(data.astype(options.dtype), label, job.contexts)


def train(options: Options) -> Summary:
    """Trains until the windows asked for are measured, the accuracy is reached or epochs end."""
    job = build(options)
    windows: list[dict[str, Any]] = []
    wanted = options.warmup_windows + options.windows if options.windows else math.inf
    accuracy = None
    steps_of_epoch = _window_steps(options, job.num_workers)
    batches = _batches(job)
    _say(job, "ready", _facts(job))
    for epoch in range(options.num_epochs):
        for steps in steps_of_epoch:
            if len(windows) < wanted:
                windows.append(measure(job, batches, steps, len(windows)))
                _say(job, "window", windows[-1])
                _show_progress(job, epoch, windows)
        _save(job, epoch)
        if options.data_val:
            accuracy, reached = _end_of_epoch(job, epoch)
        if len(windows) >= wanted or (options.data_val and reached):
            break
    return Summary(
        rank=job.rank,
        num_workers=job.num_workers,
        windows=tuple(windows),
        accuracy=accuracy,
        weight_hash=_weight_hash(job),
    )


def _end_of_epoch(job: Job, epoch: int) -> tuple[float, bool]:
    """This rank's accuracy, and whether every rank's is above the one to stop at."""
    correct, total = validate(job)
    _say(job, "epoch", {"epoch": epoch, "correct": correct, "total": total})
    accuracy = correct / total
    print(f"epoch {epoch}: validation accuracy {accuracy:.3f}", file=sys.stderr, flush=True)
    below = accuracy <= job.options.stop_accuracy
    return accuracy, not any_votes(job.kvstore, ballot=epoch, vote=below)


def _facts(job: Job) -> dict[str, Any]:
    parameters = [p for p in job.net.collect_params().values() if p.grad_req != "null"]
    return {
        "num_workers": job.num_workers,
        "worker_batch": job.options.batch_size,
        "devices": job.options.devices,
        "arrays": len(parameters),
        "mxnet": mx.__version__,
    }


def _show_progress(job: Job, epoch: int, windows: list[dict[str, Any]]) -> None:
    last = windows[-1]
    batches = sum(window["steps"] for window in windows)
    if batches // job.options.disp_batches > (batches - last["steps"]) // job.options.disp_batches:
        rate = last["images"] / last["seconds"]
        print(
            f"rank {job.rank} epoch {epoch} batch {batches}: {rate:.2f} images/s on this worker, "
            f"loss {last['loss']:.3f}",
            file=sys.stderr,
            flush=True,
        )


def _save(job: Job, epoch: int) -> None:
    """Writes PREFIX-symbol.json and PREFIX-NNNN.params, which MXNet loads, from rank 0."""
    prefix = job.options.model_prefix
    if not prefix or job.rank != 0:
        return
    job.net(mx.nd.zeros((1, *job.options.image_shape), ctx=job.contexts[0]))
    job.net.export(prefix, epoch=epoch + 1)


def _weight_hash(job: Job) -> str:
    mx.nd.waitall()
    digest = hashlib.blake2b(digest_size=8)
    for parameter in job.net.collect_params().values():
        if parameter.grad_req != "null":
            digest.update(parameter.data(job.contexts[0]).asnumpy().data)
    return digest.hexdigest()


def _say(job: Job, kind: str, values: dict[str, Any]) -> None:
    events.say(events.Event(kind=kind, rank=job.rank, values=values))
