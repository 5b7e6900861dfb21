"""One worker of a job: built, then updated step by step."""

from dataclasses import dataclass
from typing import Any

from bench import batches, checkpoint, inputs, optimizers, pretrained
from bench.kvstores import is_async
from bench.mxnet_import import mx
from bench.networks import NETWORKS
from bench.options import Options
from bench.schedule import Schedule, constant
from bench.store_client import open_kvstore


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A network on its devices, and the means to train it with the other workers of its job.

    The options' batch_size is this rank's; `part` is what that is of the global batch.
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


class _NetWithLoss(mx.gluon.HybridBlock):  # type: ignore[misc]
    """Network and loss as one graph, so that one cached operator runs both."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net
        self.loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def hybrid_forward(self, F: Any, data: Any, label: Any) -> Any:  # noqa: N803 - Gluon's name
        return self.loss(self.net(data), label)


def contexts(options: Options) -> list[Any]:
    """The worker's devices."""
    return [mx.gpu(n) for n in options.gpus] or [mx.cpu(n) for n in range(options.cpus)]


def build(options: Options) -> Worker:
    """Builds the network on every device and meets the other workers (the rendezvous)."""
    mx.random.seed(options.seed)
    kvstore = open_kvstore(options)
    rank, num_workers = (kvstore.rank, kvstore.num_workers) if kvstore else (0, 1)
    options, part = batches.own(options, rank, num_workers)
    net = _network(options)
    loss_of = _NetWithLoss(net)
    loss_of.hybridize(static_alloc=True, static_shape=True)
    # Every rank has drawn the same weights; what is random from here on differs, dropout for one.
    mx.random.seed(options.seed * 1000 + rank + 1)
    return Worker(
        options=options,
        part=part,
        contexts=contexts(options),
        kvstore=kvstore,
        rank=rank,
        num_workers=num_workers,
        net=net,
        loss_of=loss_of,
        trainer=mx.gluon.Trainer(
            net.collect_params(),
            options.optimizer,
            _optimizer_settings(options, part.whole, num_workers),
            kvstore=kvstore,
        ),
    )


def _network(options: Options) -> Any:
    """The network with its weights: drawn from the seed, or those of a checkpoint."""
    with mx.name.NameManager():  # names must not depend on what was built before
        net = _kept(options) if options.pretrained else _new(options)
    net.cast(options.dtype)
    # Weights get their shapes, and are drawn, when an image first passes.
    net(mx.nd.zeros((1, *options.image_shape), ctx=contexts(options)[0], dtype=options.dtype))
    if options.load_epoch:
        checkpoint.load(net, options.model_prefix, options.load_epoch)
    return net


def _new(options: Options) -> Any:
    net = NETWORKS[options.network].build(
        num_classes=options.num_classes, num_layers=options.num_layers
    )
    net.initialize(_initializer(options), ctx=contexts(options))
    return net


def _kept(options: Options) -> Any:
    """The layers of a checkpoint, and behind them a last one of as many classes as now."""
    net = mx.gluon.nn.HybridSequential(prefix="")
    net.add(
        pretrained.features(
            options.pretrained,
            options.pretrained_epoch,
            options.layer_before_fullc,
            contexts(options),
        ),
        mx.gluon.nn.Dense(options.num_classes, prefix="fine_tuned_"),
    )
    net[1].initialize(_initializer(options), ctx=contexts(options))
    return net


def _initializer(options: Options) -> Any:
    init = mx.init
    return {
        "default": init.Xavier(magnitude=2),
        "he": init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2),
        "xavier": init.Xavier(),
        "msra": init.MSRAPrelu(),
        "orthogonal": init.Orthogonal(),
        "normal": init.Normal(),
        "uniform": init.Uniform(),
        "one": init.One(),
        "zero": init.Zero(),
    }[options.initializer]


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
    mx.autograd.backward(losses)
    return losses


def step(worker: Worker, batch: inputs.Batch) -> list[Any]:
    """One update over the global batch; the losses are still being computed when it returns."""
    losses = gradients(worker, batch)
    # The servers add up every worker's gradients: the mean is over the global batch.
    worker.trainer.step(worker.part.whole)
    return losses
