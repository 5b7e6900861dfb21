"""Optimizers and their learning-rate schedule, in workers and on servers."""

import math
import pickle
from pathlib import Path

import numpy as np
import pytest

from bench.networks.layers import fixed_scales
from bench.training.batch import batch_slice, epoch_steps
from bench.training.mxnet.worker import build_worker, step
from bench.training.mxnet_shim import mx
from bench.training.optimizer import OPTIMIZERS, UNFIT, Schedule, epochs, is_constant
from bench.training.options import parse
from launch.job.monitor import Deadlines
from tests.support.programs.jobs import measured, tiny
from tests.support.training.workers import SMALL, SYNTHETIC, photos, trained, values, weights


@pytest.mark.mxnet
@pytest.mark.filterwarnings("ignore:Please import:DeprecationWarning")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_there_is_trains(name: str) -> None:
    words = [*SYNTHETIC, "--windows=1", f"--optimizer={name}", "--lr=0.01"]
    worker = build_worker(parse(words))
    before = values(worker.net)
    batch = [mx.nd.random.uniform(shape=(4, 3, 32, 32))], [mx.nd.arange(4)]
    for _ in range(2):
        step(worker, batch)
    for key, after in values(worker.net).items():
        assert np.isfinite(after).all()
        assert key.endswith("_bias") or (after != before[key]).any()


@pytest.mark.mxnet
@pytest.mark.filterwarnings("ignore:Please import:DeprecationWarning")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_weight_decay_is_upstreams_for_each_array_on_workers_and_servers(name: str) -> None:
    worker = build_worker(parse([*SYNTHETIC, "--windows=1", f"--optimizer={name}", "--wd=0.1"]))
    here = worker.trainer.optimizer
    # As MXNet sends it: without the parameters.
    on_servers = pickle.loads(pickle.dumps(here, 0))
    names = [parameter.name for parameter in worker.trainer._params]
    theirs = mx.optimizer.create(name, wd=0.1, param_idx2name=dict(enumerate(names)))
    for number, array in enumerate(names):
        wanted = theirs._get_wds([number])
        assert here._get_wds([number]) == on_servers._get_wds([number]) == wanted
        assert wanted == [0.1 if array.endswith("weight") else 0.0]
        assert here.idx2name[number] == on_servers.idx2name[number] == array


@pytest.mark.mxnet
def test_weight_decay_acts_on_gammas_that_layers_read_and_not_on_betas() -> None:
    words = "--network=resnet-18 --image-shape=3,64,64 --benchmark=1 --windows=1 --wd=0.1"
    worker = build_worker(parse([*words.split(), "--batch-size=2"]))
    optimizer = worker.trainer.optimizer
    kinds: dict[str, set[float]] = {}
    (fixed,) = fixed_scales(worker.net)
    for number, parameter in enumerate(worker.trainer._params):
        kind = "fixed" if parameter.name == fixed else parameter.name.rpartition("_")[2]
        kinds.setdefault(kind, set()).update(optimizer._get_wds([number]))
    assert kinds["weight"] == kinds["gamma"] == {0.1}
    assert kinds["beta"] == kinds["bias"] == kinds["fixed"] == {0.0}


@pytest.mark.mxnet
@pytest.mark.filterwarnings("ignore:Please import:DeprecationWarning")
def test_lars_has_upstreams_momentum_and_leaves_biases_to_the_plain_rate() -> None:
    worker = build_worker(parse([*SYNTHETIC, "--windows=1", "--optimizer=lars", "--lr=0.5"]))
    assert worker.trainer.optimizer.momentum == 0
    parameters = worker.net.collect_params()
    (bias,) = (one for one in parameters.values() if one.name.endswith("dense0_bias"))
    before = bias.data().asnumpy()
    step(worker, ([mx.nd.random.uniform(shape=(4, 3, 32, 32))], [mx.nd.arange(4)]))
    moved = before - values(worker.net)[bias.name]
    np.testing.assert_allclose(moved, 0.5 * bias.grad().asnumpy() / 4, rtol=1e-5)


@pytest.mark.mxnet
def test_mxnet_has_no_optimizer_that_is_not_offered() -> None:
    assert set(mx.optimizer.Optimizer.opt_registry) - {"test", "ccsgd"} == {*OPTIMIZERS, *UNFIT}


@pytest.mark.mxnet
def test_the_rate_of_the_schedule_is_the_one_that_is_used(photographs: Path) -> None:
    words = [*SMALL, *photos(photographs), "--num-epochs=4", "--lr=0.4"]
    worker = build_worker(parse([*words, "--lr-step-epochs=1,2", "--warmup-epochs=1"]))
    rates = []
    batch = [mx.nd.random.uniform(shape=(24, 3, 32, 32))], [mx.nd.zeros(24)]
    for _ in range(22):
        step(worker, batch)
        rates.append(worker.trainer.learning_rate)
    np.testing.assert_allclose(rates[:9], 0.04 * np.arange(1, 10), rtol=1e-6)
    np.testing.assert_allclose(rates[10:20], 0.04, rtol=1e-6)
    np.testing.assert_allclose(rates[20:], 0.004, rtol=1e-6)


@pytest.mark.mxnet
def test_servers_follow_the_schedule_as_a_worker_alone_does(
    tmp_path: Path, photographs: Path
) -> None:
    words = ["--lr-step-epochs=2", "--warmup-epochs=1"]
    data = str(photographs / "train")
    trial = tiny(
        mode="real",
        kvstore="dist_sync",
        batch_per_device=60,
        num_classes=10,
        lr=0.1,
        data_train=data,
        windows=0,
        num_epochs=3,
        rgb_std=[58.0, 57.0, 57.0],
        options=[*words, f"--model-prefix={tmp_path / 'servers'}"],
    )
    (record,) = measured(tmp_path / "run", trial, deadlines=Deadlines())
    assert record.status == "ok", record.message
    words += [f"--data-train={data}", "--batch-size=60", "--lr=0.1", "--num-epochs=3"]
    trained(*words, "--rgb-std=58,57,57", f"--model-prefix={tmp_path / 'alone'}")
    over_servers = weights(tmp_path / "servers", 3)
    for name, one in weights(tmp_path / "alone", 3).items():
        np.testing.assert_allclose(over_servers[name], one, rtol=1e-4, atol=1e-6)


def schedule(text: str, **fields: object) -> Schedule:
    when = epochs(text, factor=0.1, warmup=int(str(fields.pop("warmup", 0))))
    settings = {"base_lr": 0.4, "updates": 10, "last": 8} | fields
    return Schedule(epochs=when, **settings)  # type: ignore[arg-type]


def test_the_rate_falls_at_the_first_update_of_each_step() -> None:
    made = schedule("3,6")
    assert [made(n) for n in (1, 30)] == [0.4, 0.4]
    assert [made(n) for n in (31, 60, 61)] == pytest.approx([0.04, 0.04, 0.004])


def test_training_that_goes_on_goes_on_with_its_rate() -> None:
    assert schedule("3,6", first=3)(1) == pytest.approx(schedule("3,6")(31))


def test_warm_up_rises_and_is_never_zero() -> None:
    made = schedule("30", warmup=2)
    assert made(1) == pytest.approx(0.4 / 20)
    assert made(10) == pytest.approx(0.2)
    assert made(20) == made(21) == 0.4


@pytest.mark.parametrize(
    ("strategy", "half"), [("linear", 0.5), ("power2", 0.25), ("sqrt", 0.5**0.5)]
)
def test_warm_up_strategies(strategy: str, half: float) -> None:
    when = epochs("", factor=0.1, warmup=2, strategy=strategy, initial_lr=0.1)
    made = Schedule(base_lr=1.1, epochs=when, updates=10, last=8)
    assert made(10) == pytest.approx(0.1 + half)


def test_a_polynomial_has_upstreams_rate_at_each_update() -> None:
    mx = pytest.importorskip("bench.training.mxnet_shim").mx
    for power in (1, 2):
        made, theirs = schedule(f"pow{power}"), mx.lr_scheduler.PolyScheduler(80, 0.4, power)
        rates = [made(n) for n in range(1, 81)]
        assert rates == pytest.approx([theirs(n) for n in range(1, 81)])
        assert rates[39] == pytest.approx(0.4 * 0.5**power)
        assert rates[-1] == 0


def test_a_factor_of_one_switches_steps_off() -> None:
    assert is_constant(epochs("3,6", factor=1, warmup=0))
    assert not is_constant(epochs("3,6", factor=0.1, warmup=0))


def test_servers_can_be_sent_a_schedule() -> None:
    assert pickle.loads(pickle.dumps(schedule("3,6"), 0)) == schedule("3,6")


@pytest.mark.parametrize(("whole", "workers"), [(8, 2), (9, 4), (7, 3), (5, 5)])
def test_slices_are_the_global_batch(whole: int, workers: int) -> None:
    slices = [batch_slice(whole, rank, workers) for rank in range(workers)]
    images = [n for one in slices for n in range(one.first, one.first + one.count)]
    assert images == list(range(whole))
    assert max(one.count for one in slices) - min(one.count for one in slices) <= 1


@pytest.mark.parametrize(
    ("images", "workers", "batch"),
    [(650, 1, 32), (720, 7, 16), (720, 3, 16), (31, 2, 16), (9, 1, 9)],
)
def test_an_epoch_has_upstreams_number_of_steps(images: int, workers: int, batch: int) -> None:
    options = parse(["--data-train=t.rec", f"--num-examples={images}"])
    upstream = math.ceil(int(images / workers) / batch)
    assert epoch_steps(options, batch * workers, workers) == upstream
    # A global batch that does not divide: no fewer steps than its images need.
    steps = epoch_steps(options, batch * workers - 1, workers)
    assert upstream <= steps <= upstream + 1
