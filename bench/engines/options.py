"""The parts of a trial that belong to one engine."""

from dataclasses import dataclass

from bench.settings.declaration import Role, setting

# Extra costs of a step on synthetic data: none, or those in the throughput upstream prints.
COSTS = ("none", "upstream")


@dataclass(frozen=True, kw_only=True)
class MxnetOptions:
    """Settings of the MXNet engine."""

    python: str = setting(
        "interpreter with MXNet for every process, absolute or relative to the checkout; "
        "empty: each host's own",
        "",
        later=True,
    )
    options: tuple[str, ...] = setting("further options of a worker, such as --optimizer=nag", ())
    cold: bool = setting(
        "1: --test-io reads from the disk", False, flag="--cold", modes=("test-io",), unless="cold"
    )
    costs: str = setting(
        "of --benchmark 1; upstream: copy the input, compute the accuracy and use the store "
        "of one device in each step, as the speed that upstream prints contains them",
        "none",
        choices=COSTS,
        flag="--costs",
        modes=("synthetic",),
        unless="costs",
        later=True,
    )


@dataclass(frozen=True, kw_only=True)
class FakeOptions:
    """The script of the simulated engine."""

    seconds: tuple[float, ...] = setting(
        "seconds of each window, the last one repeated",
        (),
        stored="fake_seconds",
        role=Role.MEASURING,
    )
    faults: tuple[str, ...] = setting(
        "faults such as worker-1:exit", (), stored="fake_faults", role=Role.MEASURING
    )
    noise: float = setting(
        "relative standard deviation of the windows of a process",
        0.0,
        stored="fake_noise",
        role=Role.ORIGIN,
        least=0,
        below=1,
    )
    correlation: float = setting(
        "share of a window's noise that the next one keeps",
        0.0,
        stored="fake_correlation",
        role=Role.ORIGIN,
        least=0,
        below=1,
    )
    spread: float = setting(
        "relative standard deviation between processes",
        0.0,
        stored="fake_spread",
        role=Role.ORIGIN,
        least=0,
        below=1,
    )
