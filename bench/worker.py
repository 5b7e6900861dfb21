"""One worker of a job: built, then updated step by step."""

from dataclasses import dataclass
from typing import Any

from bench import inputs
from bench.mxnet_import import mx
from bench.networks import NETWORKS
from bench.options import Options
from bench.sgd import Sgd
from bench.store_client import open_kvstore


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A network on its devices, and the means to train it with the other workers of its job."""

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


def loss_scale(options: Options) -> int:
    """How many times too large gradients are computed, so that float16 holds the small ones."""
    return 1024 if options.dtype == "float16" else 1


def _compose(block: Any) -> None:
    if hasattr(block, "composed"):
        block.composed = True


def contexts(options: Options) -> list[Any]:
    """The worker's devices."""
    return [mx.gpu(n) for n in options.gpus] or [mx.cpu(n) for n in range(options.cpus)]


def network(options: Options, devices: list[Any]) -> Any:
    """The network with its first weights on these devices, the same on every rank."""
    if options.dtype == "bfloat16":
        from mxnet.contrib import amp  # noqa: PLC0415 - loaded for this alone

        amp.init(target_dtype="bfloat16")
    mx.random.seed(options.seed)
    net = NETWORKS[options.network].build(
        num_classes=options.num_classes, num_layers=options.num_layers
    )
    if devices[0].device_type == "cpu" and options.dtype == "float32":
        net.apply(_compose)
    net.initialize(mx.init.Xavier(magnitude=2), ctx=devices)
    net.cast(options.array_dtype)
    return net


def build(options: Options) -> Worker:
    """Builds the network on every device and meets the other workers (the rendezvous)."""
    kvstore = open_kvstore(options)
    net = network(options, contexts(options))
    loss_of = _NetWithLoss(net)
    loss_of.hybridize(static_alloc=True, static_shape=True)
    settings = {"learning_rate": options.lr, "momentum": options.mom, "wd": options.wd}
    if options.dtype == "float16":
        settings["multi_precision"] = True
    optimizer = Sgd(**settings)
    return Worker(
        options=options,
        contexts=contexts(options),
        kvstore=kvstore,
        rank=kvstore.rank if kvstore else 0,
        num_workers=kvstore.num_workers if kvstore else 1,
        net=net,
        loss_of=loss_of,
        trainer=mx.gluon.Trainer(net.collect_params(), optimizer, kvstore=kvstore),
    )


def step(worker: Worker, batch: inputs.Batch) -> list[Any]:
    """One update over the global batch; the losses are still being computed when it returns."""
    with mx.autograd.record():
        losses = [worker.loss_of(data, label) for data, label in zip(*batch, strict=True)]
    scale = loss_scale(worker.options)
    heads = [mx.nd.full(loss.shape, scale, loss.context, loss.dtype) for loss in losses]
    mx.autograd.backward(losses, heads if scale != 1 else None)
    # The servers add up every worker's gradients: the mean is over the global batch.
    worker.trainer.step(worker.options.batch_size * worker.num_workers * scale)
    return losses
