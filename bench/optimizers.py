"""The optimiser of a job, by MXNet's names, as the trainer and the servers apply it."""

from bench.errors import SpecError, unknown

OPTIMIZERS = (
    *("sgd", "nag", "signum", "lbsgd", "sgld", "lars", "lamb", "ftml", "ftrl"),
    *("adam", "nadam", "adagrad", "adadelta", "rmsprop"),
)
# MXNet 1.9.1 has these too.
UNFIT = {
    "adamax": "divides by 0 where a gradient is 0, and the weight is nan",
    "dcasgd": "fails with momentum",
    "groupadagrad": "takes matrices only, and no biases",
}
# Upstream passes --mom to these alone; lars has its default of 0.
_WITH_MOMENTUM = ("sgd", "nag", "signum", "lbsgd")
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
    if name in UNFIT:
        raise SpecError(
            f"--optimizer {name}: MXNet's {UNFIT[name]}; expected one of {', '.join(OPTIMIZERS)}"
        )
    if name not in OPTIMIZERS:
        raise unknown("--optimizer", name, OPTIMIZERS)
    return name


def settings(name: str, *, lr: float, mom: float, wd: float) -> dict[str, float]:
    """Arguments of the optimizer; `mom` only for those to which upstream passes it."""
    momentum = {"momentum": mom} if name in _WITH_MOMENTUM else {}
    return {"learning_rate": lr, "wd": wd, **momentum}
