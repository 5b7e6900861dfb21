"""A worker of a job: its network and trainer, and single steps."""

import dataclasses
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.data import loader
from bench.data.partition import worker_partition
from bench.errors import SpecError
from bench.kvstores import is_async
from bench.networks import NETWORKS
from bench.training import checkpoint
from bench.training.kvstore import open_kvstore
from bench.training.mxnet_shim import mx
from bench.training.optimizer import Schedule, is_constant, optimizer_arguments
from bench.training.options import Options
from bench.training.sgd import Sgd
from bench.training.validation import Accuracy


class NetWithLoss(mx.gluon.HybridBlock):  # type: ignore[misc]
    """Network and loss as one graph, so that one cached operator runs both.

    With `counted` it gives too whether each image's best score is its label's: the accuracy.
    """

    def __init__(self, net: Any, *, counted: bool = False) -> None:
        super().__init__()
        self.net = net
        self.counted = counted
        self.loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def hybrid_forward(self, F: Any, data: Any, label: Any) -> Any:  # noqa: N803 - Gluon's name
        """The loss of each image, and 1 or 0 for a right or wrong guess if these are counted."""
        scores = self.net(data)
        loss = self.loss(scores, label)
        if not self.counted:
            return loss
        guessed = F.argmax(F.cast(F.BlockGrad(scores), "float32"), axis=1)
        return [loss, F.broadcast_equal(guessed, F.cast(label, "float32"))]


def build_network(options: Options, devices: list[Any]) -> Any:
    """The network on these devices, with the same weights on every rank.

    They are drawn from the seed, or a checkpoint's.
    """
    if options.dtype == "bfloat16":
        from mxnet.contrib import amp  # noqa: PLC0415 - loaded for this alone

        amp.init(target_dtype="bfloat16")
    mx.random.seed(options.seed)
    with mx.name.NameManager():  # names must not depend on what was built before
        net = (
            _pretrained_network(options, devices)
            if options.pretrained
            else _new_network(options, devices)
        )
    net.cast(options.array_dtype)
    # Weights get their shapes, and are drawn, when an image first passes.
    _infer_shapes(net, options, devices[0])
    if options.load_epoch:
        checkpoint.load(net, options.model_prefix, options.load_epoch)
    return net


def _infer_shapes(net: Any, options: Options, device: Any) -> None:
    image = mx.nd.zeros((1, *options.image_shape), ctx=device, dtype=options.array_dtype)
    try:
        net(image).wait_to_read()
    except (mx.MXNetError, ValueError) as error:
        if "exceed" not in str(error):  # "kernel size (3) exceeds input"
            raise
        shape = ",".join(map(str, options.image_shape))
        raise SpecError(
            f"--image-shape {shape}: too small for {options.network}, whose layers leave nothing "
            f"of it; its own is {','.join(map(str, NETWORKS[options.network].image_shape))}"
        ) from error


def _compose(block: Any) -> None:
    if hasattr(block, "composed"):
        block.composed = True


def _new_network(options: Options, devices: list[Any]) -> Any:
    net = NETWORKS[options.network].build(
        num_classes=options.num_classes,
        num_layers=options.num_layers,
        image_shape=options.image_shape,
    )
    # A layer's own initializer would be taken in place of the one that is asked for.
    for weight in net.collect_params(".*weight").values():
        weight.init = None
    if devices[0].device_type == "cpu" and options.dtype == "float32":
        net.apply(_compose)
    net.initialize(_initializer(options), ctx=devices)
    return net


def _pretrained_network(options: Options, devices: list[Any]) -> Any:
    """The layers of a checkpoint, and behind them a last one of as many classes as now."""
    net = mx.gluon.nn.HybridSequential(prefix="")
    net.add(
        checkpoint.feature_network(
            options.pretrained,
            options.pretrained_epoch,
            options.layer_before_fullc,
            devices,
        ),
        mx.gluon.nn.Dense(options.num_classes, prefix="fine_tuned_"),
    )
    net[1].initialize(_initializer(options), ctx=devices)
    return net


class _Orthogonal(mx.init.Orthogonal):  # type: ignore[misc]
    """MXNet's own hands a NumPy number to an operator as a size, which NumPy 2 spells otherwise."""

    def _init_weight(self, _: Any, arr: Any) -> None:
        rows, columns = arr.shape[0], math.prod(arr.shape[1:])
        drawn = mx.nd.random.uniform(-1, 1, shape=(rows, columns)).asnumpy()
        left, _, right = np.linalg.svd(drawn, full_matrices=False)
        made = self.scale * (left if left.shape == drawn.shape else right)
        arr[:] = mx.nd.from_numpy(made.reshape(arr.shape))


def _initializer(options: Options) -> Any:
    init = mx.init
    name = options.initializer
    if name == "default":
        name = NETWORKS[options.network].initializer
    return {
        "he": init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2),
        "xavier": init.Xavier(),
        "msra": init.MSRAPrelu(),
        "orthogonal": _Orthogonal(),
        "normal": init.Normal(),
        "uniform": init.Uniform(),
        "one": init.One(),
        "zero": init.Zero(),
    }[name]


@dataclass(frozen=True, kw_only=True)
class BatchSlice:
    """A worker's part of a global batch of `whole` images: `count` of them, from number `first`."""

    first: int
    count: int
    whole: int


def batch_slice(whole: int, rank: int, workers: int) -> BatchSlice:
    """The part of one rank; where it does not divide, the first ranks have one image more."""
    each, more = divmod(whole, workers)
    return BatchSlice(first=rank * each + min(rank, more), count=each + (rank < more), whole=whole)


def with_batch_slice(options: Options, rank: int, workers: int) -> tuple[Options, BatchSlice]:
    """The options with this rank's batch, and its part of the global batch.

    Raises SpecError where a worker would have fewer images than devices.
    """
    mine = batch_slice(options.global_batch or options.batch_size * workers, rank, workers)
    if options.global_batch and options.global_batch // workers < options.devices:
        raise SpecError(
            f"--global-batch {options.global_batch}: expected at least an image for each of the "
            f"{workers * options.devices} devices of {workers} worker(s)"
        )
    return dataclasses.replace(options, batch_size=mine.count), mine


def epoch_images(options: Options, workers: int) -> int:
    """Images of an epoch of the whole job."""
    return options.num_examples or worker_partition(options.data_train, 0, workers).epoch


def epoch_steps(options: Options, whole: int, workers: int) -> int:
    """Steps of an epoch at a global batch of `whole` images; every worker gets the same.

    As upstream counts them: ceil(floor(images / workers) / a worker's batch). An epoch's last batch
    may hold the first images of the next epoch.
    """
    share = epoch_images(options, workers) // workers
    return max(1, -(-share * workers // whole))


@dataclass(frozen=True, kw_only=True)
class Worker:
    """A network on its devices, and the means to train it with the other workers of its job.

    The options' batch_size is this rank's; `part` is what that is of the global batch. `accuracy`
    is of the images trained; synthetic data has none, except with upstream's costs.
    """

    part: BatchSlice
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


def device_contexts(options: Options) -> list[Any]:
    """The worker's devices."""
    return [mx.gpu(n) for n in options.gpus] or [mx.cpu(n) for n in range(options.cpus)]


def build_worker(options: Options) -> Worker:
    """Builds the network on every device and meets the other workers (the rendezvous)."""
    if options.gpus and not mx.runtime.Features().is_enabled("CUDA"):
        raise SpecError("--gpus: this MXNet is built without CUDA; leave --gpus out to use CPU")
    kvstore = open_kvstore(options)
    rank, num_workers = (kvstore.rank, kvstore.num_workers) if kvstore else (0, 1)
    options, part = with_batch_slice(options, rank, num_workers)
    net = build_network(options, device_contexts(options))
    counted = not options.benchmark or options.costs == "upstream"
    loss_of = NetWithLoss(net, counted=counted)
    loss_of.hybridize(static_alloc=True, static_shape=True)
    # Every rank has drawn the same weights; what is random from here on differs, dropout for one.
    mx.random.seed(options.seed * 1000 + rank + 1)
    parameters = net.collect_params()
    optimizer = _optimizer(options, part.whole, num_workers, sorted(parameters.keys()))
    for name, parameter in parameters.items():  # a worker reads the parameters' own multipliers
        parameter.wd_mult = optimizer.wd_mult.get(name, 1.0)
    return Worker(
        options=options,
        part=part,
        contexts=device_contexts(options),
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


def _optimizer_settings(options: Options, whole: int, num_workers: int) -> dict[str, Any]:
    made: dict[str, Any] = dict(
        optimizer_arguments(options.optimizer, lr=options.lr, mom=options.mom, wd=options.wd)
    )
    if options.dtype == "float16":
        made["multi_precision"] = True
    if options.optimizer == "lbsgd":
        made["warmup_strategy"] = options.lr_epochs.strategy
    if options.benchmark or is_constant(options.lr_epochs):
        return made  # synthetic data have no epochs
    # An asynchronous server applies every worker's push by itself.
    pushes = num_workers if is_async(options.kv_store) else 1
    made["lr_scheduler"] = Schedule(
        base_lr=options.lr,
        epochs=options.lr_epochs,
        updates=epoch_steps(options, whole, num_workers) * pushes,
        first=options.load_epoch,
        last=options.num_epochs,
    )
    return made


def gradients(worker: Worker, batch: loader.Batch) -> list[Any]:
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


def step(worker: Worker, batch: loader.Batch) -> list[Any]:
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


def trainable_parameters(worker: Worker) -> list[Any]:
    """The parameters that training changes."""
    return [one for one in worker.net.collect_params().values() if one.grad_req != "null"]


def gradient_bytes(worker: Worker) -> int:
    """Bytes of the gradients of one step."""
    device = worker.contexts[0]
    return sum(
        one.data(device).size * np.dtype(one.dtype).itemsize for one in trainable_parameters(worker)
    )


def weight_digest(worker: Worker) -> str:
    """A hash of the weights; FloatingPointError where they are no numbers any more."""
    mx.nd.waitall()
    found = hashlib.blake2b(digest_size=8)
    for parameter in trainable_parameters(worker):
        values = parameter.data(worker.contexts[0]).asnumpy()
        if not np.isfinite(values).all():
            raise FloatingPointError(
                f"weights are no numbers any more ({parameter.name}); try a smaller --lr"
            )
        found.update(values.data)
    return found.hexdigest()
