"""One process of a `torch` job: its network, its optimizer and single steps."""

import hashlib
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from bench.errors import SpecError, error_line
from bench.networks.torch.catalog import default_initializer, initialized, shaped
from bench.training.optimizer import Schedule
from bench.training.options import Options
from bench.training.torch.rendezvous import Job

_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}
# Steps before PowerSGD begins to compress, the fewest possible: DDP changes its buckets after one.
_POWERSGD_START = 2


def device_of(options: Options) -> Any:
    """Return the worker's device; SpecError without it or if there are several."""
    if options.devices != 1:
        expected, fix = "1 device per worker", "Set devices_per_worker = 1"
        raise SpecError(error_line("torch", expected=expected, got=options.devices, fix=fix))
    if not options.gpus:
        return torch.device("cpu")
    if not torch.cuda.is_available():
        problem = f"PyTorch {torch.__version__} finds no GPU that it has code for"
        fix = "Leave out --gpus to use the CPU, or install a build for GPUs with 'make torch'"
        raise SpecError(error_line("--gpus", problem=problem, fix=fix))
    return torch.device("cuda", options.gpus[0])


def build_network(options: Options, device: Any) -> Any:
    """Build the network with its first weights, which are the same on every rank."""
    try:
        net = shaped(
            options.network,
            num_classes=options.num_classes,
            num_layers=options.num_layers,
            image_shape=options.image_shape,
        )
    except RuntimeError as error:  # "Kernel size can't be greater than actual input size"
        shape = ",".join(map(str, options.image_shape))
        expected = f"larger images for {options.network}"
        raise SpecError(error_line("--image-shape", expected=expected, got=shape)) from error
    name = default_initializer(options.network, options.initializer)
    return initialized(net, initializer=name, seed=options.seed, device=device)


def parameter_groups(net: Any, decay: float) -> list[dict[str, Any]]:
    """Return the trained arrays by weight decay; biases and shifts have none."""
    named = list(net.named_parameters())
    weights = [one for name, one in named if name.endswith("weight")]
    others = [one for name, one in named if not name.endswith("weight")]
    return [
        {"params": weights, "weight_decay": decay},
        {"params": others, "weight_decay": 0.0},
    ]


def _optimizer(options: Options, net: Any) -> Any:
    groups = parameter_groups(net, options.wd)
    if options.optimizer == "adam":
        return torch.optim.Adam(groups, lr=options.lr, fused=True)
    nesterov = options.optimizer == "nag" and options.mom > 0
    return torch.optim.SGD(
        groups, lr=options.lr, momentum=options.mom, nesterov=nesterov, fused=True
    )


def _compress(model: Any, kind: str) -> None:
    """Register the communication hook of a gradient compression."""
    from torch.distributed.algorithms.ddp_comm_hooks import (  # noqa: PLC0415 - seldom needed
        default_hooks,
        powerSGD_hook,
    )

    if kind == "powersgd":
        state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=_POWERSGD_START)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    elif kind != "none":
        hooks = {"fp16": default_hooks.fp16_compress_hook, "bf16": default_hooks.bf16_compress_hook}
        model.register_comm_hook(None, hooks[kind])


def factored_size(shape: Sequence[int]) -> int:
    """Return the number of values that PowerSGD of rank 1 sends of a gradient.

    It factors the matrix of the first dimension by the others, if that more than halves the number.
    """
    rows, size = shape[0], math.prod(shape)
    factors = rows + size // rows
    return factors if 2 * factors < size else size


@dataclass(kw_only=True)
class Step:
    """A network with what a step needs: its loss, gradients and update.

    net        the network alone
    model      the network that exchanges gradients with the other workers
    whole      images of the global batch
    schedule   learning rate by update, if it changes
    updates    updates so far, with those of an interrupted training
    """

    options: Options
    device: Any
    job: Job
    net: Any
    model: Any
    optimizer: Any
    scaler: Any
    whole: int
    schedule: Schedule | None = None
    updates: int = 0

    def loss(self, model: Any, images: Any, labels: Any) -> tuple[Any, Any]:
        """Return the summed cross entropy of a batch and the scores."""
        dtype = _DTYPES.get(self.options.dtype)
        with torch.autocast(self.device.type, dtype, enabled=dtype is not None):
            scores = model(images)
            return functional.cross_entropy(scores, labels, reduction="sum"), scores

    def gradients(self, images: Any, labels: Any) -> tuple[Any, Any]:
        """Run forward and backward; return the mean loss and the right guesses.

        The workers' gradients are those of the mean over the global batch, however it is divided.
        """
        loss, scores = self.loss(self.model, images, labels)
        # DDP takes the mean over the workers.
        self.scaler.scale(loss * (self.job.num_workers / self.whole)).backward()
        return loss.detach() / len(labels), scores.detach().argmax(1) == labels

    def update(self) -> None:
        """Update the weights by the gradients, and forget those."""
        self.updates += 1
        if self.schedule:
            for group in self.optimizer.param_groups:
                group["lr"] = self.schedule(self.updates)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    def compute(self, images: Any, labels: Any) -> None:
        """Run forward and backward of the network alone; nothing is exchanged or updated."""
        self.loss(self.net, images, labels)[0].backward()
        self.optimizer.zero_grad(set_to_none=True)

    def wait(self) -> None:
        """Return when all work on the device is done."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def scores(self, images: Any) -> Any:
        """Return the scores of images as numpy, by the running averages."""
        self.net.eval()
        dtype = _DTYPES.get(self.options.dtype)
        try:
            cast = torch.autocast(self.device.type, dtype, enabled=dtype is not None)
            with torch.no_grad(), cast:
                return self.net(images).float().cpu().numpy()
        finally:
            self.net.train()

    def arrays(self) -> Iterator[tuple[str, Any]]:
        """Yield the trained arrays by name, as numpy."""
        for name, one in self.net.named_parameters():
            yield name, one.detach().float().contiguous().cpu().numpy()

    def exchanged_bytes(self) -> int:
        """Return the bytes of the gradients, or of PowerSGD's factors, of a step."""
        factors = self.options.gc_type == "powersgd"
        return sum(
            (factored_size(one.shape) if factors else one.numel()) * one.element_size()
            for one in self.net.parameters()
        )

    def digest(self) -> str:
        """Return a hash of the weights; FloatingPointError if they are not finite."""
        found = hashlib.blake2b(digest_size=8)
        for name, values in self.arrays():
            if not math.isfinite(float(abs(values).max())):
                raise FloatingPointError(
                    error_line(
                        f"weights of {name}",
                        expected="finite numbers",
                        got="others",
                        fix="Use a smaller --lr",
                    )
                )
            found.update(values.tobytes())
        return found.hexdigest()


def build_step(options: Options, job: Job, whole: int) -> Step:
    """Build the network on the device, connected with the other workers."""
    device = device_of(options)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.backends.cudnn.benchmark = True
    net = build_network(options, device)
    if options.channels_last:
        net = net.to(memory_format=torch.channels_last)
    model = net
    if job.num_workers > 1:
        with warnings.catch_warnings():
            # The argument's new name is unknown to earlier versions.
            warnings.simplefilter("ignore", FutureWarning)
            # MXNet never exchanges running averages.
            model = DistributedDataParallel(
                net, gradient_as_bucket_view=True, broadcast_buffers=False
            )
        _compress(model, options.gc_type)
    if options.compile:
        model = torch.compile(model)
    # All ranks have drawn the same weights; later random numbers (dropout) must differ.
    torch.manual_seed(options.seed * 1000 + job.rank + 1)
    return Step(
        options=options,
        device=device,
        job=job,
        net=net,
        model=model,
        optimizer=_optimizer(options, net),
        scaler=torch.amp.GradScaler(device.type, enabled=options.dtype == "float16"),
        whole=whole,
    )
