"""Optimizer names, arguments and learning-rate schedule, by MXNet's names."""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.errors import SpecError, error_line, is_whole, quoted, unknown
from bench.notes import Note, NoteKind

STRATEGIES = ("linear", "power2", "sqrt", "lars")
OPTIMIZERS = (
    *("sgd", "nag", "signum", "lbsgd", "sgld", "lars", "lamb", "ftml", "ftrl"),
    *("adam", "nadam", "adagrad", "adadelta", "rmsprop"),
)
# Optimizers of MXNet 1.9.1 that do not work.
UNFIT = {
    "adamax": "divides by 0 for a gradient of 0",
    "dcasgd": "fails with momentum",
    "groupadagrad": "supports matrices only, no biases",
}
# Upstream passes --mom only to these; lars uses its default of 0.
_WITH_MOMENTUM = ("sgd", "nag", "signum", "lbsgd")
# Servers answer a vote with an update (kvstore.any_worker); these change weights without a push.
MOVES_BY_ITSELF = ("sgld",)
# The linear rule (Goyal et al. 2017): this rate for this batch, in proportion up to the last batch,
# and a warm-up. It is for stochastic gradient descent with momentum.
_RULE_RATE, _RULE_BATCH, _RULE_END = 0.1, 256, 8192
_RULED = ("sgd", "nag")
INITIALIZERS = (
    *("default", "xavier", "msra", "orthogonal", "normal", "uniform", "one", "zero"),
    "he",
)


@dataclass(frozen=True, kw_only=True)
class Epochs:
    """Learning-rate changes by epoch: `factor` at `steps`, or polynomial with `power`."""

    steps: tuple[int, ...] = ()
    power: float | None = None
    factor: float = 0.1
    warmup: int = 0
    strategy: str = "linear"
    initial_lr: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The learning rate by update; MXNet calls it with a weight's number of updates.

    updates   updates of each weight per epoch
    first     epoch of update 0: --load-epoch, less the updates before it that are counted
    last      epoch at which it ends
    """

    base_lr: float
    epochs: Epochs
    updates: int
    first: float = 0
    last: int

    def __call__(self, update: int) -> float:
        """Return the learning rate of an update, counted from 1."""
        done = self.first + (update - 1) / self.updates
        # Warm-up and polynomial count the current update as done, as MXNet's schedulers do: the
        # first warm-up rate is above 0, the last polynomial rate is 0.
        ramp = self.first + update / self.updates
        if self.epochs.warmup and ramp < self.epochs.warmup:
            return self._warming(ramp / self.epochs.warmup)
        if self.epochs.power is not None:
            left = max(0.0, 1 - ramp / self.last)
            return float(self.base_lr * left**self.epochs.power)
        # Half an update of slack, so that rounding does not delay a step by an update.
        passed = sum(done + 0.5 / self.updates >= step for step in self.epochs.steps)
        return float(self.base_lr * self.epochs.factor**passed)

    def _warming(self, part: float) -> float:
        power = {"power2": 2.0, "sqrt": 0.5}.get(self.epochs.strategy, 1.0)
        begin = self.epochs.initial_lr
        return float(begin + (self.base_lr - begin) * part**power)


def epochs(
    text: str, *, factor: float, warmup: int, strategy: str = "linear", initial_lr: float = 0.0
) -> Epochs:
    """Parse upstream's --lr-step-epochs: '30,60', 'pow2' or ''."""
    if not factor > 0:
        raise SpecError(error_line("--lr-factor", expected="above 0", got=factor))
    if warmup < 0 or initial_lr < 0:
        raise SpecError(error_line("--warmup-epochs, --initial-lr", expected="0 or more"))
    rest = {"warmup": warmup, "strategy": strategy, "initial_lr": initial_lr}
    if text.startswith("pow"):
        return Epochs(power=_power(text), factor=factor, **rest)  # type: ignore[arg-type]
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(map(is_whole, parts)):
        raise SpecError(
            error_line(
                "--lr-step-epochs", expected="epochs such as 30,60 or pow2", got=quoted(text)
            )
        )
    # Upstream's own rule: a factor of 1 or more switches the steps off.
    steps = tuple(sorted(int(part) for part in parts)) if factor < 1 else ()
    return Epochs(steps=steps, factor=factor, **rest)  # type: ignore[arg-type]


def _power(text: str) -> float:
    try:
        power = float(text.removeprefix("pow").strip(" -"))
    except ValueError:
        power = -1.0
    if not 0 < power < 100:
        raise SpecError(
            error_line(
                "--lr-step-epochs", expected="'pow' and a power, such as pow2", got=quoted(text)
            )
        )
    return power


def is_constant(when: Epochs) -> bool:
    """Return whether the learning rate never changes."""
    return not when.steps and when.power is None and not when.warmup


def checked_optimizer(name: str) -> str:
    """Return the name; SpecError with the nearest known name for an unknown optimizer."""
    if name == "ccsgd":
        return "sgd"
    if name in UNFIT:
        raise SpecError(
            error_line(
                "--optimizer",
                expected=f"one of {', '.join(OPTIMIZERS)}",
                got=name,
                problem=f"MXNet's {UNFIT[name]}",
            )
        )
    if name not in OPTIMIZERS:
        raise unknown("--optimizer", name, OPTIMIZERS)
    return name


def optimizer_arguments(name: str, *, lr: float, mom: float, wd: float) -> dict[str, float]:
    """Return the optimizer's arguments; `mom` only where upstream passes it."""
    momentum = {"momentum": mom} if name in _WITH_MOMENTUM else {}
    return {"learning_rate": lr, "wd": wd, **momentum}


def described(
    name: str, *, lr: float, mom: float, wd: float, when: Epochs | None
) -> dict[str, str]:
    """Return an optimizer's options as typed, by flag; `when`: None without epochs."""
    found = {"--optimizer": name}
    arguments = optimizer_arguments(name, lr=lr, mom=mom, wd=wd)
    flags = {"learning_rate": "--lr", "momentum": "--mom", "wd": "--wd"}
    found |= {flags[argument]: f"{value:g}" for argument, value in arguments.items()}
    if when:
        steps = ",".join(map(str, when.steps))
        found["--lr-step-epochs"] = steps if when.power is None else f"pow{when.power:g}"
        found |= {"--lr-factor": f"{when.factor:g}"} if when.steps else {}
        found["--warmup-epochs"] = str(when.warmup)
    return found


def rate_notes(optimizer: str, *, lr: float, batch: int, warmup: int) -> Iterator[Note]:
    """Yield a note on a learning rate that does not suit the global batch.

    The rate is low if it is below half of the linear rule's. `warmup` is in epochs.
    """
    if optimizer not in _RULED or batch <= _RULE_BATCH:
        return
    scaled = _RULE_RATE * min(batch, _RULE_END) / _RULE_BATCH
    if lr < scaled / 2:
        yield Note(NoteKind.RATE_NOT_SCALED, {"lr": lr, "batch": batch, "scaled": scaled})
    elif lr > _RULE_RATE and not warmup:
        yield Note(NoteKind.RATE_WITHOUT_WARMUP, {"lr": lr, "batch": batch})
