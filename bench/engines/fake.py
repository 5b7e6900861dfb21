"""The programs of a rehearsal: real processes that meet and count but compute nothing."""

import json

from bench.trial import Trial


def command(trial: Trial, role: str, index: int) -> tuple[str, ...]:
    """Module and script of one process; the script is one JSON argument."""
    script = {
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
    return ("-m", "bench.engines.fake_process", json.dumps(script))
