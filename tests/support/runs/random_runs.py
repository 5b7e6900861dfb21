"""Random runs with points of every kind: good, failed, single, uncertain."""

import dataclasses
import math
from pathlib import Path
from random import Random
from typing import Any

from bench.errors import SpecError
from bench.kvstores import DISTRIBUTED, KVSTORES
from bench.notes import Note, NoteKind
from bench.trial import Trial, make
from results.record import STATUSES, Record
from results.repeat import summarize
from results.run import Run, with_baseline
from results.scaling import scaling
from results.store import UNREADABLE
from tests.support.runs.records import record

NETWORKS: tuple[dict[str, Any], ...] = (
    {"network": "alexnet"},
    {"network": "tiny"},
    {"network": "vgg", "num_layers": 16},
    {"network": "resnet", "num_layers": 18},
)
VALUES: tuple[object, ...] = (0, 1, 0.31, -0.2, math.nan, math.inf, "text", [1, 2], None, True)
FIGURES = ("cores", "of", "share", "text", "dropped", "change", "what", "base", "excess", "pids")


def run_at_random(random: Random) -> Run:
    """Return a run of up to twelve points; two runs of one seed are equal."""
    usual = _fields(random)
    found = [
        one
        for _ in range(random.randint(0 if random.random() < 0.1 else 1, 12))
        for one in _repeats(random, _trial(random, usual))
    ]
    found = [one for one in found if _is_readable(one)]
    if random.random() < 0.1:
        found = [dataclasses.replace(one, emulated=random.random() < 0.5) for one in found]
    environment: dict[str, Any] = {"date": "2026-01-02T03:04:05+00:00", "commit": "abcdef0"}
    hosts = {f"n{n}": {"cores": [0, 1], "mxnet": random.choice(["1.9.1", ""])} for n in range(2)}
    environment |= random.choice([{}, {"processor": "AMD EPYC", "cores": 2}, {"hosts": hosts}])
    whole = Run(
        folder=Path(random.choice(["study", "a b", "x$y_{z}"])),
        rows=scaling(found),
        environment=environment if random.random() < 0.8 else {},
        missing=tuple(f"tiny local x{n}" for n in range(random.choice([0, 0, 0, 1, 5]))),
        troubles=("records.jsonl line 3: torn",) * random.choice([0, 0, 0, 1, 9]),
    )
    return with_baseline(whole, random.choice(["", "", "local x1", "dist_sync x2"]))


def _is_readable(one: Record) -> bool:
    """Return whether a record gives a row; asynchronous ranks may not overlap."""
    try:
        summarize(one)
    except UNREADABLE:
        return False
    return True


def _fields(random: Random) -> dict[str, Any]:
    """Return the fields that most points of a run share."""
    return {
        **random.choice(NETWORKS),
        "kvstore": random.choice(KVSTORES),
        "mode": random.choice(["synthetic", "synthetic", "real", "test-io", "bandwidth"]),
        "engine": random.choice(["mxnet", "mxnet", "fake"]),
        "device": random.choice(["cpu", "gpu"]),
        "devices_per_host": random.choice([1, 2, 4, 16]),
        "batch_per_device": random.choice([1, 8, 100]),
        "windows": random.choice([1, 4, 20]),
        "precision": random.choice([0.0, 0.02]),
        "warmup_windows": random.choice([0, 1, 2]),
    }


def _trial(random: Random, usual: dict[str, Any]) -> Trial:
    """Return the usual fields with some changed; invalid choices are drawn again."""
    rare: dict[str, Any] = {
        **_fields(random),
        "gc_type": "2bit",
        "dtype": random.choice(["float16", "bfloat16"]),
        "env": ("A=1", "B=x y"),
        "python": "python3.9",
        "options": ("--optimizer=nag",),
        "server_hosts": 1,
        "servers_per_host": 2,
        "global_batch_fixed": 64,
        "cold": True,
        "data_nthreads": random.choice([1, 2, 8]),
        "fake_spread": 0.9,
        "emulate": True,
        "num_examples": 100,
    }
    while True:
        names = random.sample(sorted(rare), random.choice([0, 0, 1, 2, 4]))
        fields = usual | {name: rare[name] for name in names}
        if "network" in names:
            fields.pop("num_layers", None)
            fields |= random.choice(NETWORKS)
        fields["devices"] = random.choice([1, 1, 2, 4, 16, 256])
        if fields["mode"] in {"real", "test-io"}:
            fields["data_train"] = "d"
        if fields["mode"] == "bandwidth":
            fields["kvstore"] = random.choice(DISTRIBUTED[:3])
        if "global_batch_fixed" in fields:
            fields.pop("batch_per_device", None)
        try:
            return make(fields)
        except SpecError:
            usual = _fields(random)


def _repeats(random: Random, trial: Trial) -> list[Record]:
    fields = trial.fields
    source = random.choice(["", "", "", "imported from a.log (mxnet)", "a paper, 2017"])
    spread = random.choice([0.0, 0.0, 0.01, 0.3, 2.0])
    bad = random.random() < 0.15
    found = []
    for number in range(random.choice([1, 1, 2, 3, 5])):
        status = random.choice(STATUSES) if bad else "ok"
        seconds = 10 ** random.uniform(-7, 7) if spread > 1 else 1.0
        ranks = [_windows(random, trial, seconds, spread) for _ in range(min(trial.workers, 3))]
        one = record(ranks if status == "ok" else [], repeat=number, status=status, **fields)
        if source and random.random() < 0.5:
            trial_of_others = dataclasses.replace(one.trial, engine="imported mxnet")
            one = dataclasses.replace(one, trial=trial_of_others)
        found.append(
            dataclasses.replace(
                one,
                source=source,
                message=random.choice(["", "died: *[b]*|<i>", "a; b"]),
                notes=tuple(_note(random) for _ in range(random.choice([0, 0, 1, 3]))),
                accuracy=random.choice([None, None, 0.0, 0.31, math.nan]),
                elapsed_seconds=random.choice([0.0, 3.5, 1e9]),
                commands={"worker-0": "python -m bench.train_imagenet"},
            )
        )
    return found


def _windows(random: Random, trial: Trial, seconds: float, spread: float) -> list[float]:
    count = trial.measuring.warmup_windows + random.choice([1, 2, 3, 8, 30])
    slope = random.choice([0, 0, 0.03])
    jump = random.choice([1.0, 1.0, 1.5]) if random.random() < 0.3 else 1.0
    return [
        max(1e-8, seconds * (jump if n < 0.4 * count else 1.0) * (1 + slope * n))
        * math.exp(min(9.0, random.gauss(0, spread)))
        for n in range(count)
    ]


def _note(random: Random) -> Note:
    figures = {name: random.choice(VALUES) for name in random.sample(FIGURES, 3)}
    scope: dict[str, Any] = random.choice(
        [{}, {"host": "n1"}, {"rank": 1, "host": "n1"}, {"hosts": ["a", "b"]}]
    )
    return Note(random.choice(list(NoteKind)), figures, scope)
