"""Text of a new sweep file that fits the time and the hardware at hand."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from bench.errors import SpecError, error_line
from bench.sweep import within
from launch.hosts import this_machine

DEFAULT_NETWORKS = ("alexnet", "inception-v3", "resnet-152")
_SMALLEST = "tiny"
_QUICK = (_SMALLEST, "lenet", "mlp")
# Batches that train at once on any core, and those of the published study.
_BATCH = {
    "cpu": {
        **{"alexnet": 8, "tiny": 8, "lenet": 64, "mlp": 64},
        **dict.fromkeys(("googlenet", "mobilenet", "mobilenetv2", "resnet-18"), 4),
    },
    "gpu": {"alexnet": 512, "tiny": 64, "lenet": 64, "mlp": 64},
}
_OTHER_BATCH = {"cpu": 2, "gpu": 32}
_DEEPEST = (
    *(
        f"{family}-{n}"
        for family in ("resnet", "resnet-v1", "resnext")
        for n in (101, 152, 200, 269)
    ),
    *("vgg-16", "vgg-19", "inception-v4", "inception-resnet-v2"),
)
_STORES = {"cpu": ("local", "dist_sync"), "gpu": ("device", "dist_device_sync")}
_STEPS = {"cpu": 1, "gpu": 10}
_QUICK_STEPS = 100
# Memory of a worker and its server, with some to spare.
_GIB_PER_WORKER, _GIB_OF_TINY = 2.0, 0.5
_REPEATS = 3
_BUDGETS = (60, 40, 30, 20, 10, 5)
# Of the time allowed; the rest is for a slow start.
_USED = 0.95


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """Devices of a machine: their kind and number, and its free memory."""

    device: str
    devices: int
    gib: float

    @property
    def text(self) -> str:
        """The hardware in words: '2 CPU cores, 21 GiB of free memory'."""
        kind = {"cpu": "CPU core", "gpu": "GPU"}[self.device]
        plural = "s" if self.devices > 1 else ""
        return f"{self.devices} {kind}{plural}, {self.gib:.0f} GiB of free memory"


@dataclass(frozen=True, kw_only=True)
class Draft:
    """The lists and limits of a new sweep."""

    networks: tuple[str, ...]
    stores: tuple[str, ...]
    counts: tuple[int, ...]
    repeats: int
    budget_seconds: int = _BUDGETS[0]


def hardware() -> Hardware:
    """Return the hardware of this machine: its GPUs, or its cores if it has none."""
    host = this_machine()
    device = "gpu" if host.gpus else "cpu"
    return Hardware(device=device, devices=host.devices(device), gib=_free_gib())


def _free_gib() -> float:
    for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return int(rest.split()[0]) / (1 << 20)
    return 0.0


def fitting_text(
    command: str,
    minutes: int,
    networks: Sequence[str],
    found: Hardware,
    seconds: Callable[[str], float],
) -> tuple[str, list[str]]:
    """Return the text of the largest sweep that fits, and the limits it had to accept.

    `networks` are those asked for, or none; `seconds` forecasts a text. SpecError if none fits.
    """
    choices, too_large = _choices(networks, found)
    for draft in _drafts(choices, found):
        for budget in _BUDGETS:
            text = draft_text(command, replace(draft, budget_seconds=budget), found)
            if seconds(text) <= minutes * 60 * _USED:
                return text, [*too_large, *_limits(draft, choices[0], found)]
    raise SpecError(
        error_line(
            "--minutes",
            expected="time for one run of each point",
            got=minutes,
            fix="Give more minutes, or fewer networks such as --networks tiny",
        )
    )


def _choices(asked: Sequence[str], found: Hardware) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return the groups of networks to try, most first, and notes on those left out."""
    if asked:
        return [tuple(dict.fromkeys(asked))], []
    fit = tuple(name for name in DEFAULT_NETWORKS if _gib(name, found) <= found.gib)
    out = [name for name in DEFAULT_NETWORKS if name not in fit]
    notes = [f"too little free memory for {', '.join(out)}"] if out else []
    return [*(fit[:count] for count in range(len(fit), 0, -1)), (_SMALLEST,)], notes


def _gib(network: str, found: Hardware) -> float:
    each = _GIB_OF_TINY if network == _SMALLEST else _GIB_PER_WORKER
    return each * (found.devices if found.device == "cpu" else 1)


def _drafts(choices: Sequence[tuple[str, ...]], found: Hardware) -> Iterator[Draft]:
    """Yield drafts, largest first.

    Networks go first, then device counts, kvstores and repeats.
    """
    stores, every = _STORES[found.device], tuple(within(found.devices))
    ends = tuple(dict.fromkeys((1, found.devices)))
    *more, last = choices
    for some_networks in (more, [last]):
        for counts, networks in product((every, ends), some_networks):
            yield Draft(networks=networks, stores=stores, counts=counts, repeats=_REPEATS)
    for repeats in range(_REPEATS, 0, -1):
        for some in (stores, stores[:1]):
            yield Draft(networks=last, stores=some, counts=ends, repeats=repeats)


def _limits(draft: Draft, networks: Sequence[str], found: Hardware) -> list[str]:
    notes = []
    if out := [name for name in networks if name not in draft.networks]:
        notes.append(f"no time for {', '.join(out)}")
    if draft.counts != tuple(within(found.devices)):
        notes.append(f"no time for device counts between 1 and {found.devices}")
    if draft.stores != (stores := _STORES[found.device]):
        notes.append(f"no time for {stores[-1]}")
    if draft.repeats < _REPEATS:
        notes.append(
            f"no time for {_REPEATS} repeats, only {draft.repeats}: results will not be publishable"
        )
    return notes


def draft_text(command: str, draft: Draft, found: Hardware) -> str:
    """Return the commented TOML text of a draft."""
    few = "" if draft.repeats >= _REPEATS else f"; fewer than {_REPEATS} cannot be published"
    place = {"cpu": "a CPU device is one core", "gpu": "try --auto-batch for larger batches"}
    fields = [
        ("device", _toml(found.device), place[found.device]),
        ("repeats", str(draft.repeats), f"runs of each point, each a fresh job{few}"),
        ("network", _toml(_one(draft.networks)), ""),
        (
            "batch_per_device",
            _by_network(draft.networks, lambda one: batch(one, found.device)),
            "images per step on each device",
        ),
        (
            "steps_per_window",
            _by_network(draft.networks, lambda one: _steps(one, found.device)),
            "steps timed together",
        ),
        ("windows", "10", "at most 10 windows per run, after one of warm-up"),
        ("budget_seconds", str(draft.budget_seconds), "a run ends after windows of this time"),
    ]
    points = [
        ("kvstore", _toml(_one(draft.stores)), "within a process; dist_ stores use servers"),
        ("devices", _toml(list(draft.counts)), "device counts, one point each"),
    ]
    most = draft.counts[-1]
    return "\n".join(
        [
            f"# Written by `{command}` for {found.text}.",
            "# Reference of all fields: docs/reference/sweep-file.md",
            f'description = "up to {most} {found.device.upper()} device{"s" * (most > 1)}"',
            *map(_line, fields),
            "",
            "# All combinations of these lists and the networks above:",
            "[[points]]",
            *map(_line, points),
            "",
        ]
    )


def batch(network: str, device: str) -> int:
    """Return the batch per device of a network in a new sweep."""
    if device == "cpu" and network in _DEEPEST:
        return 1
    return _BATCH[device].get(network, _OTHER_BATCH[device])


def _steps(network: str, device: str) -> int:
    return _QUICK_STEPS if network in _QUICK else _STEPS[device]


def _by_network(networks: Sequence[str], value: Callable[[str], int]) -> str:
    """Return one value if all networks share it, else a TOML table by network."""
    values = {name: value(name) for name in networks}
    if len(set(values.values())) == 1:
        return str(values[networks[0]])
    return f"{{ {', '.join(f'{name} = {one}' for name, one in values.items())} }}"


def _one(values: Sequence[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else list(values)


def _toml(value: str | list[str] | list[int]) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return f"[{', '.join(_toml(one) if isinstance(one, str) else str(one) for one in value)}]"


def _line(field: tuple[str, str, str]) -> str:
    name, value, comment = field
    return f"{f'{name} = {value}':<30}  # {comment}" if comment else f"{name} = {value}"
