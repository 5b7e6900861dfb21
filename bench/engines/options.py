"""Parts of a trial that belong to one engine each."""

from dataclasses import dataclass

from bench.settings.declaration import setting


@dataclass(frozen=True, kw_only=True)
class MxnetOptions:
    """MXNet's own.

    python   interpreter of every process, with its MXNet, in place of a host's own; relative to the
             checkout ("": the host's)
    options  further options of a worker, "--optimizer=nag" and the like
    cold     test-io reads from the disk: its files are dropped from memory first
    costs    "upstream": each step copies its input, computes the accuracy and uses the store of one
             device, as the speed that upstream prints contains them
    """

    python: str = setting("")
    options: tuple[str, ...] = setting(())
    cold: bool = setting(False)
    costs: str = setting("none")


@dataclass(frozen=True, kw_only=True)
class FakeOptions:
    """The fake engine's script.

    seconds      of its windows, in order, the last one repeated
    faults       "worker-1:exit" and the like
    noise        relative standard deviation of its windows within a process, of which each keeps
                 the share `correlation` of the one before
    spread       the same between processes
    """

    seconds: tuple[float, ...] = setting((), stored="fake_seconds")
    faults: tuple[str, ...] = setting((), stored="fake_faults")
    noise: float = setting(0.0, stored="fake_noise")
    correlation: float = setting(0.0, stored="fake_correlation")
    spread: float = setting(0.0, stored="fake_spread")
