"""Engine `fake`: MXNet's jobs, with scripted window times and faults."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bench.engines.command.program import COMMAND
from bench.engines.engine import Engine
from bench.engines.mxnet import MXNET
from bench.engines.torch import TORCH

if TYPE_CHECKING:
    from bench.trial import Trial


def script(trial: "Trial", role: str, index: int) -> dict[str, Any]:
    """Return what a simulated process does; numbers and short names only."""
    found = {
        "steps": trial.measuring.steps_per_window,
        "windows": trial.scripted_windows,
        "warmup_windows": trial.measuring.warmup_windows,
        "precision": trial.measuring.precision,
        "budget_seconds": trial.measuring.budget_seconds,
        "worker_batches": list(trial.worker_batches),
        "seconds": list(trial.fake.seconds or (1.0,)),
        "noise": [trial.fake.noise, trial.fake.correlation, trial.fake.spread],
        "seed": trial.key,
        "asynchronous": trial.asynchronous,
        "faults": {one.kind: one.window for one in trial.faults if one.is_in(role, index)},
    }
    # Goldens hold the scripts of points without these.
    if trial.mode == "real":
        found["reads"] = True
    if once := [one.kind for one in trial.faults if one.first_try and one.is_in(role, index)]:
        found["once"] = once
    return found


def _command(trial: "Trial", role: str, index: int) -> tuple[str, ...]:
    """Return flags and program of a simulated process.

    Without `site`, and as -c without `runpy`, it starts in half the time. Windows that differ need
    NumPy for the rule of stopping, and so `site`.
    """
    played = script(trial, role, index)
    alike = not any(played["noise"]) and len(set(played["seconds"])) == 1
    code = f"from bench.engines.fake_process import run; run({played!r})"
    return (*(("-S",) if alike else ()), "-c", code)


def _simulated(name: object, command: object = ()) -> Engine:
    """Return the engine whose job is simulated, by its communication method."""
    if command and name not in FAKE.comms:
        return COMMAND
    return TORCH if name in TORCH.comms else MXNET


FAKE = replace(
    MXNET,
    name="fake",
    # No process loads a package.
    comms={
        name: replace(comm, borrows="") for name, comm in {**MXNET.comms, **TORCH.comms}.items()
    },
    fill=lambda given: _simulated(given.get("kvstore"), given.get("command")).fill(given),
    check=lambda trial: _simulated(trial.layout.kvstore, trial.program.command).check(trial),
    environment=lambda trial, place: _simulated(trial.layout.kvstore).environment(trial, place),
    title="the simulated engine",
    scripted=True,
    package="",
    command=_command,
    lacks=lambda facts, needs: "",
    no_code=lambda gpu, facts: "",
    software=lambda facts: "",
)
