"""The optimiser of a job, by MXNet's names, as the trainer and the servers apply it."""

from bench.errors import SpecError, unknown

# All of MXNet 1.9.1 but 'test' (its own tests') and 'ccsgd' (sgd by its old name).
OPTIMIZERS = (
    *("sgd", "nag", "signum", "lbsgd", "dcasgd", "sgld", "lars", "lamb", "ftml", "ftrl"),
    *("adam", "adamax", "nadam", "adagrad", "adadelta", "rmsprop", "groupadagrad"),
)
_WITH_MOMENTUM = ("sgd", "nag", "signum", "lbsgd", "dcasgd", "lars")
# The servers answer a vote by an update (store_client.any_votes), and these move without a push.
MOVES_BY_ITSELF = ("sgld",)
INITIALIZERS = (
    *("default", "xavier", "msra", "orthogonal", "normal", "uniform", "one", "zero"),
    "he",
)


def checked_optimizer(name: str) -> str:
    """The name; SpecError with the nearest one there is where there is no such optimiser."""
    if name == "ccsgd":
        return "sgd"
    if name not in OPTIMIZERS:
        raise unknown("--optimizer", name, OPTIMIZERS)
    return name


def settings(name: str, *, lr: float, mom: float, wd: float) -> dict[str, float]:
    """What the optimiser is made with; those without momentum are not told of it."""
    momentum = {"momentum": mom} if name in _WITH_MOMENTUM else {}
    if name == "groupadagrad" and wd:
        raise SpecError("--optimizer groupadagrad: takes no weight decay in MXNet; give --wd 0")
    return {"learning_rate": lr, "wd": wd, **momentum}
