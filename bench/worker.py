"""One worker of a job: built, then updated step by step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench import batches, inputs, optimizers
from bench.accuracy import Accuracy
from bench.errors import SpecError
from bench.kvstores import is_async
from bench.model import NetWithLoss, network
from bench.mxnet_import import mx
from bench.options import Options
from bench.schedule import Schedule, constant
from bench.sgd import Sgd
from bench.store_client import open_kvstore


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A network on its devices, and the means to train it with the other workers of its job.

    The options' batch_size is this rank's; `part` is what that is of the global batch. `accuracy`
    is of the images trained; synthetic data has none, except with upstream's costs.
    """

    part: batches.Slice
    options: Options
    contexts: list[Any]
    kvstore: Any
    rank: int
    num_workers: int
    net: Any
    loss_of: Any
    trainer: Any
    accuracy: Accuracy | None


def loss_scale(options: Options) -> int:
    """How many times too large gradients are computed, so that float16 holds the small ones."""
    return 1024 if options.dtype == "float16" else 1


def contexts(options: Options) -> list[Any]:
    """The worker's devices."""
    return [mx.gpu(n) for n in options.gpus] or [mx.cpu(n) for n in range(options.cpus)]


def build(options: Options) -> Worker:
    """Builds the network on every device and meets the other workers (the rendezvous)."""
    if options.gpus and not mx.runtime.Features().is_enabled("CUDA"):
        raise SpecError("--gpus: this MXNet is built without CUDA; leave --gpus out to use CPU")
    kvstore = open_kvstore(options)
    rank, num_workers = (kvstore.rank, kvstore.num_workers) if kvstore else (0, 1)
    options, part = batches.own(options, rank, num_workers)
    net = network(options, contexts(options))
    counted = not options.benchmark or options.costs == "upstream"
    loss_of = NetWithLoss(net, counted=counted)
    loss_of.hybridize(static_alloc=True, static_shape=True)
    # Every rank has drawn the same weights; what is random from here on differs, dropout for one.
    mx.random.seed(options.seed * 1000 + rank + 1)
    parameters = net.collect_params()
    optimizer = _optimizer(options, part.whole, num_workers, sorted(parameters.keys()))
    _spare_from_decay(parameters, optimizer)
    return Worker(
        options=options,
        part=part,
        contexts=contexts(options),
        kvstore=kvstore,
        rank=rank,
        num_workers=num_workers,
        net=net,
        loss_of=loss_of,
        trainer=mx.gluon.Trainer(parameters, optimizer, kvstore=kvstore),
        accuracy=Accuracy() if counted else None,
    )


def _optimizer(options: Options, whole: int, num_workers: int, names: Sequence[str]) -> Any:
    """The optimizer of parameters with these names, in the order of the trainer's indexes.

    With names it exempts all but weights and gammas from weight decay, as Module's does. Servers
    get them with the optimizer, by pickle.
    """
    settings = _optimizer_settings(options, whole, num_workers)
    settings["param_idx2name"] = dict(enumerate(names))
    if options.optimizer == "sgd":
        return Sgd(**settings)
    return mx.optimizer.create(options.optimizer, **settings)


def _spare_from_decay(parameters: Any, optimizer: Any) -> None:
    """Give parameters the optimizer's decay multipliers: a worker reads the parameters' own."""
    for name, parameter in parameters.items():
        parameter.wd_mult = optimizer.wd_mult.get(name, 1.0)


def _optimizer_settings(options: Options, whole: int, num_workers: int) -> dict[str, Any]:
    made: dict[str, Any] = dict(
        optimizers.settings(options.optimizer, lr=options.lr, mom=options.mom, wd=options.wd)
    )
    if options.dtype == "float16":
        made["multi_precision"] = True
    if options.optimizer == "lbsgd":
        made["warmup_strategy"] = options.lr_epochs.strategy
    if options.benchmark or constant(options.lr_epochs):
        return made  # synthetic data have no epochs
    # An asynchronous server applies every worker's push by itself.
    pushes = num_workers if is_async(options.kv_store) else 1
    made["lr_scheduler"] = Schedule(
        base_lr=options.lr,
        epochs=options.lr_epochs,
        updates=batches.epoch_steps(options, whole, num_workers) * pushes,
        first=options.load_epoch,
        last=options.num_epochs,
    )
    return made


def gradients(worker: Worker, batch: inputs.Batch) -> list[Any]:
    """Forward and backward on every device; the losses are still being computed on return."""
    with mx.autograd.record():
        losses = [worker.loss_of(data, label) for data, label in zip(*batch, strict=True)]
    if worker.accuracy:
        losses, hits = map(list, zip(*losses, strict=True))
        worker.accuracy.count(hits)
    scale = loss_scale(worker.options)
    heads = [mx.nd.full(loss.shape, scale, loss.context, loss.dtype) for loss in losses]
    mx.autograd.backward(losses, heads if scale != 1 else None)
    return losses


def step(worker: Worker, batch: inputs.Batch) -> list[Any]:
    """One update over the global batch; the losses are still being computed when it returns."""
    losses = gradients(worker, batch)
    update(worker)
    return losses


def update(worker: Worker) -> None:
    """Lets the gradients move the weights; with servers, the arrays of gradients are used up."""
    # The servers add up every worker's gradients: the mean is over the global batch.
    worker.trainer.step(worker.part.whole * loss_scale(worker.options))
    if worker.accuracy and worker.options.costs == "upstream":
        worker.accuracy.read()  # upstream's metric waits for the scores in each step
