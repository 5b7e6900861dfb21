"""`--costs upstream`: steps have the costs that upstream's throughput contains."""

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from bench.engines.catalog import ENGINES
from bench.engines.worker_options import OF_FIELDS
from bench.errors import SpecError
from bench.training.options import parse
from bench.trial import make
from launch.hosts import ROOT
from tests.support.training.workers import SYNTHETIC, trained

WORDS = [*SYNTHETIC, "--windows=2", "--steps-per-window=3"]
COSTS = "--costs=upstream"


def test_a_trial_with_upstreams_costs_is_another_point_and_others_keep_their_keys() -> None:
    plain, costly = (make({"batch_per_device": 4, **more}) for more in ({}, {"costs": "upstream"}))
    assert plain.key == "c397f4edfec0"  # as before there were costs
    assert costly.key != plain.key
    assert (plain.name, costly.name) == ("tiny local x1", "tiny local upstream-costs x1")
    assert "--costs" not in ENGINES["mxnet"].command(plain, "worker", 0)
    assert parse(ENGINES["mxnet"].command(costly, "worker", 0)[2:]).costs == "upstream"
    assert "--costs" in OF_FIELDS
    for wrong in ({"costs": "all"}, {"costs": "upstream", "mode": "real", "data_train": "x"}):
        with pytest.raises(SpecError, match="costs: expected"):
            make({"batch_per_device": 4, **wrong})


@pytest.mark.parametrize("words", ["--data-train=x.rec", "--benchmark=1 --windows=1 --bandwidth=1"])
def test_costs_are_of_training_on_synthetic_data(words: str) -> None:
    with pytest.raises(
        SpecError,
        match="--costs upstream: expected training on synthetic images",
    ):
        parse(["--kv-store=dist_sync", COSTS, *words.split()])


@pytest.mark.mxnet
@pytest.mark.parametrize("devices", [1, 2])
def test_upstreams_costs_copy_the_input_in_each_step(devices: int) -> None:
    from bench.training.mxnet.inputs import synthetic_batches  # noqa: PLC0415
    from bench.training.mxnet.worker import device_contexts  # noqa: PLC0415

    options = parse([*WORDS, COSTS, f"--cpus={devices}"])
    plain = parse([*WORDS, f"--cpus={devices}"])
    costly = synthetic_batches(options, device_contexts(options), 3)
    for wanted in itertools.islice(synthetic_batches(plain, device_contexts(plain), 3), 3):
        found = next(costly)
        for ours, theirs in zip((*wanted[0], *wanted[1]), (*found[0], *found[1]), strict=True):
            np.testing.assert_array_equal(theirs.asnumpy(), ours.asnumpy())
            theirs[:] = -7  # the next step fills it again
    assert [len(part) for part in found[0]] == [4 // devices] * devices


@pytest.mark.mxnet
def test_upstreams_costs_use_the_store_of_one_device_and_compute_the_accuracy_in_each_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from bench.training import validation  # noqa: PLC0415
    from bench.training.mxnet import inputs, worker  # noqa: PLC0415

    found = worker.build_worker(parse([*WORDS, COSTS]))
    batch = next(inputs.synthetic_batches(found.options, found.contexts, 0))
    pushes: list[Any] = []
    worker.step(found, batch)
    assert found.trainer._update_on_kvstore
    monkeypatch.setattr(
        type(found.kvstore), "pushpull", lambda *given, **_: pushes.append(given[1])
    )
    found.accuracy.read()
    waits: list[None] = []
    settle = validation.Accuracy.settle
    monkeypatch.setattr(validation.Accuracy, "settle", lambda self: waits.append(settle(self)))
    for _ in range(3):
        worker.step(found, batch)
    assert pushes == list(range(len(found.trainer._params))) * 3
    assert len(waits) == 3
    assert found.accuracy.read()[1] == 12
    assert worker.build_worker(parse(WORDS)).kvstore is None


@pytest.mark.mxnet
def test_upstreams_costs_train_the_same() -> None:
    plain, costly = trained(*WORDS), trained(*WORDS, COSTS)
    for one, other in zip(plain.windows, costly.windows, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-6)


@pytest.mark.slow
@pytest.mark.mxnet
@pytest.mark.program
def test_the_benchmark_against_module_shows_both_ratios() -> None:
    words = "--networks tiny --threads 1 --rounds 2 --steps 1"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.train", *words.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    head, _, row, *means = done.stdout.splitlines()
    assert "ratio without costs | ratio with upstream's costs" in head
    cells = [float(cell) for cell in row.split("|")[3:-1]]
    assert len(cells) == 7
    assert min(cells) > 0
    assert len(means) == 2
