"""A worker of a job: its network and trainer, and single steps."""

import dataclasses
import hashlib
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.data import loader
from bench.data.input_format import FINE_TUNED
from bench.engines.server_updates import slots, state_of
from bench.errors import SpecError, error_line
from bench.kvstores import ALL_REDUCE, VAN_VARIABLE, find_kvstore
from bench.networks import NETWORKS
from bench.networks.layers import fixed_scales
from bench.statistics.stopwatch import WindowDelays
from bench.training.batch import BatchSlice, epoch_steps, with_batch_slice
from bench.training.mxnet import checkpoint
from bench.training.mxnet.inputs import Batch
from bench.training.mxnet.kvstore import ServerStates, open_kvstore, sums_over_workers
from bench.training.mxnet.sgd import Sgd
from bench.training.mxnet_shim import mx
from bench.training.optimizer import Schedule, described, is_constant, optimizer_arguments
from bench.training.options import Options
from bench.training.validation import Accuracy
from im2rec_tools.terminal import echo


class NetWithLoss(mx.gluon.HybridBlock):  # type: ignore[misc]
    """Network and loss as one graph, so that one cached operator runs both.

    With `counted` it also returns whether each image's best score is its label's.
    """

    def __init__(self, net: Any, *, counted: bool = False) -> None:
        super().__init__()
        self.net = net
        self.counted = counted
        self.loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def hybrid_forward(self, F: Any, data: Any, label: Any) -> Any:  # noqa: N803 - Gluon's name
        """Return each image's loss and, if counted, 1 or 0 for a right or wrong guess."""
        scores = self.net(data)
        loss = self.loss(scores, label)
        if not self.counted:
            return loss
        guessed = F.argmax(F.cast(F.BlockGrad(scores), "float32"), axis=1)
        return [loss, F.broadcast_equal(guessed, F.cast(label, "float32"))]


def build_network(options: Options, devices: list[Any]) -> Any:
    """Build the network on these devices, with the same weights on every rank.

    The weights are drawn from the seed, or come from a checkpoint.
    """
    if options.dtype == "bfloat16":
        from mxnet.contrib import amp  # noqa: PLC0415 - only needed here

        amp.init(target_dtype="bfloat16")
    mx.random.seed(options.seed)
    with mx.name.NameManager():  # names must not depend on networks built before
        net = (
            _pretrained_network(options, devices)
            if options.pretrained
            else _new_network(options, devices)
        )
    net.cast(options.array_dtype)
    # The first image determines the weights' shapes and initializes them.
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
        shape, usual = (",".join(map(str, one)) for one in (options.image_shape, _shape(options)))
        name = options.pretrained or options.network
        expected = f"larger images for {name}, such as {usual}"
        raise SpecError(error_line("--image-shape", expected=expected, got=shape)) from error


def _shape(options: Options) -> tuple[int, ...]:
    """Return the usual image shape of the network."""
    return (3, 224, 224) if options.pretrained else NETWORKS[options.network].image_shape


def _compose(block: Any) -> None:
    if hasattr(block, "composed"):
        block.composed = True


def _new_network(options: Options, devices: list[Any]) -> Any:
    net = NETWORKS[options.network].build(
        num_classes=options.num_classes,
        num_layers=options.num_layers,
        image_shape=options.image_shape,
    )
    # A layer's own initializer would override the requested one.
    for weight in net.collect_params(".*weight").values():
        weight.init = None
    if devices[0].device_type == "cpu" and options.dtype == "float32":
        net.apply(_compose)
    net.initialize(_initializer(options), ctx=devices)
    return net


def _pretrained_network(options: Options, devices: list[Any]) -> Any:
    """Build the layers of a checkpoint with a new last layer for the current classes."""
    net = mx.gluon.nn.HybridSequential(prefix="")
    net.add(
        checkpoint.feature_network(
            options.pretrained,
            options.pretrained_epoch,
            options.layer_before_fullc,
            devices,
        ),
        mx.gluon.nn.Dense(options.num_classes, prefix=FINE_TUNED),
    )
    net[1].initialize(_initializer(options), ctx=devices)
    return net


class _Orthogonal(mx.init.Orthogonal):  # type: ignore[misc]
    """Orthogonal initializer for NumPy 2; MXNet's passes a NumPy number as a size."""

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
class Worker:
    """A network on its devices and the means to train it with the job's other workers.

    The options' batch_size is this rank's; `part` is its part of the global batch. `accuracy`
    covers the trained images; None for synthetic data, except with upstream's costs. `batches` are
    the steps before this process, of an interrupted training that it continues. `servers` have the
    optimizer's state, if it is there. `exchange` adds up the workers' gradients without servers.
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
    batches: int = 0
    servers: ServerStates | None = None
    exchange: Any = None
    reader: loader.Reader = dataclasses.field(default_factory=loader.Reader)
    delays: WindowDelays = dataclasses.field(default_factory=WindowDelays)


def loss_scale(options: Options) -> int:
    """Return the factor on gradients that keeps small ones representable in float16."""
    return 1024 if options.dtype == "float16" else 1


def device_contexts(options: Options) -> list[Any]:
    """Return the worker's devices as MXNet contexts."""
    return [mx.gpu(n) for n in options.gpus] or [mx.cpu(n) for n in range(options.cpus)]


def build_worker(options: Options) -> Worker:
    """Join the rendezvous and build the network on every device."""
    if options.gpus and not mx.runtime.Features().is_enabled("CUDA"):
        raise SpecError(
            error_line(
                "--gpus",
                problem="this MXNet was built without CUDA",
                fix="Leave out --gpus to use the CPU",
            )
        )
    kvstore = open_kvstore(options)
    rank, num_workers = (kvstore.rank, kvstore.num_workers) if kvstore else (0, 1)
    options, part = with_batch_slice(options, rank, num_workers)
    net = build_network(options, device_contexts(options))
    counted = not options.benchmark or options.costs == "upstream"
    loss_of = NetWithLoss(net, counted=counted)
    loss_of.hybridize(static_alloc=True, static_shape=True)
    # All ranks have drawn the same weights; later random numbers (dropout) must differ.
    mx.random.seed(options.seed * 1000 + rank + 1)
    parameters = net.collect_params()
    state = _saved_state(options, kvstore, rank, num_workers)
    begun = state.batches if state else 0
    optimizer = _optimizer(options, part.whole, num_workers, sorted(parameters.keys()), begun)
    # Each forward pass sets them to 1 on workers; servers would decay them further and further.
    optimizer.set_wd_mult(dict.fromkeys(fixed_scales(net), 0.0))
    for name, parameter in parameters.items():  # a worker uses the parameters' own multipliers
        parameter.wd_mult = optimizer.wd_mult.get(name, 1.0)
    exchange = kvstore if options.kv_store == ALL_REDUCE else None
    trainer = mx.gluon.Trainer(parameters, optimizer, kvstore=None if exchange else kvstore)
    batches = _batches_before(options, state, part.whole, num_workers)
    worker = Worker(
        options=options,
        part=part,
        contexts=device_contexts(options),
        kvstore=kvstore,
        rank=rank,
        num_workers=num_workers,
        net=net,
        loss_of=loss_of,
        trainer=trainer,
        accuracy=Accuracy() if counted else None,
        batches=batches,
        reader=loader.Reader(rank=rank, before=batches),
        servers=_server_states(options, trainer, kvstore),
        exchange=exchange,
    )
    if exchange:
        exchange.share_weights([*parameters.values()])
        exchange.take(trainable_parameters(worker))
    if state:
        _restore_state(worker, state)
    if options.load_epoch and rank == 0:
        how = "with the optimizer's state" if state else "momentum restarts at 0"
        echo(f"continues after epoch {options.load_epoch}, {how}", err=True)
        if state:
            echo(*_changed(state, worker), err=True)
    return worker


def _settings(options: Options) -> dict[str, str]:
    """Return the options of the optimizer as typed, by flag."""
    when = options.lr_epochs if options.has_epochs else None
    return described(options.optimizer, lr=options.lr, mom=options.mom, wd=options.wd, when=when)


def _changed(state: checkpoint.TrainingState, worker: Worker) -> list[str]:
    """Return a note on settings that the training so far did not have, if any."""
    now = {**_settings(worker.options), "a global batch of": str(worker.part.whole)}
    before = {**state.settings, "a global batch of": str(state.whole)}
    differ = [name for name in now if name in before and before[name] != now[name]]
    if not differ:
        return []
    old, new = (
        ", ".join(f"{name} {one[name] or chr(39) * 2}" for name in differ) for one in (before, now)
    )
    return [f"note: the training so far had {old}; it continues with {new}"]


def keeps_state(options: Options) -> bool:
    """Return whether checkpoints have the optimizer's state.

    Servers keep nadam's schedule to themselves, and with an asynchronous kvstore or float16 they
    have no state of one moment. Compression and P3 change the arrays that reach a server.
    """
    if not find_kvstore(options.kv_store).servers:
        return True
    alone = options.optimizer == "nadam" or options.dtype == "float16"
    changed = options.gc_type != "none" or os.environ.get(VAN_VARIABLE) == "p3"
    return not (alone or changed or not find_kvstore(options.kv_store).waits)


def _saved_state(
    options: Options, kvstore: Any, rank: int, workers: int
) -> checkpoint.TrainingState | None:
    """Return the state of the checkpoint to continue; SpecError if it does not fit."""
    if not options.load_epoch or not keeps_state(options):
        return None
    state = checkpoint.read_state(options.model_prefix, options.load_epoch)
    where = f"{options.model_prefix}-{options.load_epoch:04d}.optimizer"
    own = (1, state.batches) if state else (0, 0)
    found = sums_over_workers(kvstore, own, word=0, rank=rank, workers=workers)
    if found[0] and found != (workers, workers * own[1]):
        raise SpecError(
            error_line(
                where,
                expected="the same file on the host of each worker",
                got=f"{found[0]} of {workers}, or different ones",
                fix="Copy the checkpoint to all hosts",
            )
        )
    if state and state.optimizer != options.optimizer:
        fix = f"Give --optimizer {state.optimizer}, or remove {where} to start with a new state"
        raise SpecError(
            error_line(
                where,
                expected=f"the state of --optimizer {options.optimizer}",
                got=state.optimizer,
                fix=fix,
            )
        )
    return state


def _batches_before(
    options: Options, state: checkpoint.TrainingState | None, whole: int, workers: int
) -> int:
    """Return the steps before this training that read this worker's stream of images."""
    if state and (state.whole, state.workers) == (whole, workers):
        return state.batches
    if not options.has_epochs:
        return 0
    return options.load_epoch * epoch_steps(options, whole, workers)


def _server_states(options: Options, trainer: Any, kvstore: Any) -> ServerStates | None:
    if (
        not find_kvstore(options.kv_store).servers
        or not options.model_prefix
        or not keeps_state(options)
    ):
        return None
    return ServerStates(kvstore, trainer.optimizer, _shapes(trainer))


def _shapes(trainer: Any) -> dict[int, tuple[int, ...]]:
    """Return the shape of each trained array by its index."""
    return {n: one.shape for n, one in enumerate(trainer._params) if one.grad_req != "null"}


def _updaters(trainer: Any) -> list[Any]:
    """Return the local kvstore's updater, or that of each device."""
    return [trainer._kvstore._updater] if trainer._update_on_kvstore else trainer._updaters


def training_state(worker: Worker, batches: int) -> checkpoint.TrainingState:
    """Return the state after `batches` more steps.

    All workers must call this.
    """
    mx.nd.waitall()
    trainer = worker.trainer
    arrays: dict[tuple[int, int], Any] = {}
    if worker.servers:
        arrays = worker.servers.read()
    else:
        for index, state in _updaters(trainer)[0].states.items():
            arrays |= {(index, n): one for n, one in enumerate(slots(state))}
    return checkpoint.TrainingState(
        optimizer=worker.options.optimizer,
        batches=worker.batches + batches,
        whole=worker.part.whole,
        workers=worker.num_workers,
        m_schedule=getattr(trainer.optimizer, "m_schedule", 1.0),
        settings=_settings(worker.options),
        arrays=arrays,
    )


def _restore_state(worker: Worker, state: checkpoint.TrainingState) -> None:
    trainer, shapes = worker.trainer, _shapes(worker.trainer)
    wanted = {
        (index, n): one.shape
        for index, shape in shapes.items()
        for n, one in enumerate(slots(_new_state(trainer, index)))
    }
    if {key: one.shape for key, one in state.arrays.items()} != wanted:
        raise SpecError(_misfit(worker.options, state, len(wanted)))
    # A kvstore keeps the scale of gradients that its optimizer begins with.
    images = worker.part.whole * loss_scale(worker.options)
    trainer._check_and_rescale_grad(trainer._scale / images)
    trainer._init_kvstore()
    if worker.servers:
        for parameter in trainer._params:  # oneDNN's layout of a network that has only predicted
            values = parameter.data(worker.contexts[0]).asnumpy()
            parameter._init_impl(mx.nd.from_numpy(values, zero_copy=False), parameter.list_ctx())
        trainer._init_params()
        worker.servers.restore(state.arrays, rank=worker.rank)
        return
    # Before the first forward pass, which sets fixed scales to 1 on the devices.
    trainer._init_params()
    if hasattr(trainer.optimizer, "m_schedule"):
        trainer.optimizer.m_schedule = state.m_schedule
    for updater in _updaters(trainer):
        for index in shapes:
            weight = trainer._params[index].data(worker.contexts[_updaters(trainer).index(updater)])
            for n, one in enumerate(state_of(updater, index, weight)):
                one[:] = state.arrays[index, n]
            updater.states_synced[index] = False  # MXNet moves it to the weight's device


def _misfit(options: Options, state: checkpoint.TrainingState, wanted: int) -> str:
    """Return the error of a state without the `wanted` number of arrays."""
    where = f"{options.model_prefix}-{options.load_epoch:04d}.optimizer"
    before, now = (one.get("--mom") for one in (state.settings, _settings(options)))
    if before != now and before and now:  # without momentum there are no arrays
        fix = f"Give --mom {before}, or remove {where} to start with a new state"
        return error_line("--mom", expected=f"{before}, as in {where}", got=now, fix=fix)
    found = len(state.arrays)
    expected = f"the {wanted} arrays of this network and optimizer"
    fix = "Give the --mom and --dtype of the training, or remove it to start with a new state"
    got = str(found) if found != wanted else "other shapes"
    return error_line(where, expected=expected, got=got, fix=fix)


def _new_state(trainer: Any, index: int) -> Any:
    parameter = trainer._params[index]
    weight = mx.nd.zeros(parameter.shape, dtype=parameter.dtype)
    return trainer.optimizer.create_state_multi_precision(index, weight)


def _optimizer(
    options: Options, whole: int, num_workers: int, names: Sequence[str], begun: int
) -> Any:
    """Create the optimizer of parameters with these names.

    It continues after `begun` updates of each. The names are in the order of trainer indexes. With
    names, the optimizer exempts all but weights and gammas from weight decay, as Module does.
    Servers receive the names with the pickled optimizer.
    """
    settings = _optimizer_settings(options, whole, num_workers, begun)
    settings["param_idx2name"] = dict(enumerate(names))
    if options.optimizer == "sgd":
        return Sgd(**settings)
    return mx.optimizer.create(options.optimizer, **settings)


def _optimizer_settings(
    options: Options, whole: int, num_workers: int, begun: int
) -> dict[str, Any]:
    made: dict[str, Any] = dict(
        optimizer_arguments(options.optimizer, lr=options.lr, mom=options.mom, wd=options.wd)
    )
    if begun:
        made["begin_num_update"] = begun
    if options.dtype == "float16":
        made["multi_precision"] = True
    if options.optimizer == "lbsgd":
        made["warmup_strategy"] = options.lr_epochs.strategy
    if not options.has_epochs or is_constant(options.lr_epochs):
        return made
    # An asynchronous server applies every worker's push separately.
    pushes = num_workers if not find_kvstore(options.kv_store).waits else 1
    updates = epoch_steps(options, whole, num_workers) * pushes
    made["lr_scheduler"] = Schedule(
        base_lr=options.lr,
        epochs=options.lr_epochs,
        updates=updates,
        first=options.load_epoch - begun / updates,
        last=options.num_epochs,
    )
    return made


def gradients(worker: Worker, batch: Batch) -> list[Any]:
    """Run forward and backward on every device.

    Returns before the losses are computed.
    """
    with mx.autograd.record():
        losses = [worker.loss_of(data, label) for data, label in zip(*batch, strict=True)]
    if worker.accuracy:
        losses, hits = map(list, zip(*losses, strict=True))
        worker.accuracy.count(hits)
    scale = loss_scale(worker.options)
    heads = [mx.nd.full(loss.shape, scale, loss.context, loss.dtype) for loss in losses]
    mx.autograd.backward(losses, heads if scale != 1 else None)
    return losses


def step(worker: Worker, batch: Batch) -> list[Any]:
    """Run one update over the global batch; returns before the losses are computed."""
    losses = gradients(worker, batch)
    update(worker)
    return losses


def update(worker: Worker) -> None:
    """Update the weights by the gradients; several workers overwrite the gradients."""
    if worker.exchange:
        worker.exchange.add_up()
    # The gradients of all workers are summed, so the mean is over the global batch.
    worker.trainer.step(worker.part.whole * loss_scale(worker.options))
    if worker.accuracy and worker.options.costs == "upstream":
        worker.accuracy.settle()  # upstream's metric waits for the scores in each step


def trainable_parameters(worker: Worker) -> list[Any]:
    """Return the parameters that training changes."""
    return [one for one in worker.net.collect_params().values() if one.grad_req != "null"]


def gradient_bytes(worker: Worker) -> int:
    """Return the bytes of one step's gradients."""
    device = worker.contexts[0]
    return sum(
        one.data(device).size * np.dtype(one.dtype).itemsize for one in trainable_parameters(worker)
    )


def weight_digest(worker: Worker) -> str:
    """Return a hash of the weights; FloatingPointError if they are not finite."""
    mx.nd.waitall()
    found = hashlib.blake2b(digest_size=8)
    for parameter in trainable_parameters(worker):
        values = parameter.data(worker.contexts[0]).asnumpy()
        if not np.isfinite(values).all():
            raise FloatingPointError(
                error_line(
                    "weights",
                    expected="finite values",
                    got=f"others in {parameter.name}",
                    fix="Use a smaller --lr",
                )
            )
        found.update(values.data)
    return found.hexdigest()
