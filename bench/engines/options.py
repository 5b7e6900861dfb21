"""The parts of a trial that belong to one engine."""

from dataclasses import dataclass

from bench.settings.declaration import Role, setting

# Extra costs of a step on synthetic data: none, or those in the throughput upstream prints.
COSTS = ("none", "upstream")


@dataclass(frozen=True, kw_only=True)
class MxnetOptions:
    """Settings of the MXNet engine."""

    python: str = setting(
        "Python interpreter with MXNet for every process, absolute or relative to the checkout; "
        "empty uses each host's own",
        "",
        later=True,
    )
    options: tuple[str, ...] = setting(
        "Further options of each worker, such as --optimizer=nag", ()
    )
    cold: bool = setting(
        "Read from the disk instead of memory (input-pipeline benchmark only)",
        False,
        flag="--cold",
        modes=("test-io",),
        unless="cold",
    )
    costs: str = setting(
        "Extra work per step with --benchmark 1; upstream: copy the input, compute the accuracy "
        "and use the kvstore of one device, all of which upstream's printed throughput includes",
        "none",
        choices=COSTS,
        flag="--costs",
        modes=("synthetic",),
        unless="costs",
        later=True,
    )


@dataclass(frozen=True, kw_only=True)
class TorchOptions:
    """Settings of the PyTorch engine."""

    channels_last: bool = setting(
        "Keep images and weights in memory with channels last (engine torch)",
        False,
        flag="--channels-last",
        modes=("synthetic", "real"),
        unless="channels_last",
        later=True,
        sparse=True,
    )
    compile: bool = setting(
        "Compile the network with torch.compile (engine torch)",
        False,
        flag="--compile",
        modes=("synthetic", "real"),
        unless="compile",
        later=True,
        sparse=True,
    )


@dataclass(frozen=True, kw_only=True)
class ProgramOptions:
    """The program of the engine `command`, and how to read its output."""

    command: tuple[str, ...] = setting(
        "Program and its words (engine command), with {devices}, {batch}, {global_batch}, {hosts}, "
        "{host_slots}, {port} and {gpus} replaced",
        (),
        later=True,
        sparse=True,
    )
    format: str = setting(
        "Format of the throughput that it prints: mxnet, tf-cnn, horovod-synthetic, ...",
        "",
        later=True,
        sparse=True,
    )
    printers: int = setting(
        "Number of its processes that print a throughput, each its own",
        1,
        least=1,
        most=10_000,
        later=True,
        sparse=True,
    )


@dataclass(frozen=True, kw_only=True)
class FakeOptions:
    """The script of the simulated engine."""

    seconds: tuple[float, ...] = setting(
        "Simulated seconds of each window; the last one repeats",
        (),
        stored="fake_seconds",
        role=Role.MEASURING,
    )
    faults: tuple[str, ...] = setting(
        "Faults to inject, such as worker-1:exit", (), stored="fake_faults", role=Role.MEASURING
    )
    noise: float = setting(
        "Relative standard deviation of the windows of a process",
        0.0,
        stored="fake_noise",
        role=Role.ORIGIN,
        least=0,
        below=1,
    )
    correlation: float = setting(
        "Correlation of the noise of successive windows",
        0.0,
        stored="fake_correlation",
        role=Role.ORIGIN,
        least=0,
        below=1,
    )
    spread: float = setting(
        "Relative standard deviation between processes",
        0.0,
        stored="fake_spread",
        role=Role.ORIGIN,
        least=0,
        below=1,
    )
