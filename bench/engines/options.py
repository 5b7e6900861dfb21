"""Parts of a trial that belong to one engine each."""

from dataclasses import dataclass

from bench.settings.declaration import Role, setting

# Of a step on synthetic data, beside training: none, or those in the speed that upstream prints.
COSTS = ("none", "upstream")


@dataclass(frozen=True, kw_only=True)
class MxnetOptions:
    """What the MXNet engine alone has."""

    python: str = setting(
        "",
        help="interpreter with MXNet for every process, absolute or relative to the checkout; "
        "empty: each host's own",
        later=True,
    )
    options: tuple[str, ...] = setting(
        (), help="further options of a worker, such as --optimizer=nag"
    )
    cold: bool = setting(
        False,
        help="1: --test-io reads from the disk",
        flag="--cold",
        modes=("test-io",),
        unless="cold",
    )
    costs: str = setting(
        "none",
        help="of --benchmark 1; upstream: copy the input, compute the accuracy and use the store "
        "of one device in each step, as the speed that upstream prints contains them",
        choices=COSTS,
        flag="--costs",
        modes=("synthetic",),
        unless="costs",
        later=True,
    )


@dataclass(frozen=True, kw_only=True)
class FakeOptions:
    """The script of the fake engine."""

    seconds: tuple[float, ...] = setting(
        (),
        stored="fake_seconds",
        help="seconds of each window, the last one repeated",
        role=Role.MEASURING,
    )
    faults: tuple[str, ...] = setting(
        (),
        stored="fake_faults",
        help="faults such as worker-1:exit",
        role=Role.MEASURING,
    )
    noise: float = setting(
        0.0,
        stored="fake_noise",
        help="relative standard deviation of the windows of a process",
        role=Role.ORIGIN,
        least=0,
        below=1,
    )
    correlation: float = setting(
        0.0,
        stored="fake_correlation",
        help="share of a window's noise that the next one keeps",
        role=Role.ORIGIN,
        least=0,
        below=1,
    )
    spread: float = setting(
        0.0,
        stored="fake_spread",
        help="relative standard deviation between processes",
        role=Role.ORIGIN,
        least=0,
        below=1,
    )
