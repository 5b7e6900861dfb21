"""The learning rate, update by update."""

import math
import pickle

import pytest

from bench.training import worker
from bench.training.optimizer import Schedule, constant, epochs
from bench.training.options import parse
from bench.training.worker import slice_of


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
    assert constant(epochs("3,6", factor=1, warmup=0))
    assert not constant(epochs("3,6", factor=0.1, warmup=0))


def test_servers_can_be_sent_a_schedule() -> None:
    assert pickle.loads(pickle.dumps(schedule("3,6"), 0)) == schedule("3,6")


@pytest.mark.parametrize(("whole", "workers"), [(8, 2), (9, 4), (7, 3), (5, 5)])
def test_slices_are_the_global_batch(whole: int, workers: int) -> None:
    slices = [slice_of(whole, rank, workers) for rank in range(workers)]
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
    assert worker.epoch_steps(options, batch * workers, workers) == upstream
    # A global batch that does not divide: no fewer steps than its images need.
    steps = worker.epoch_steps(options, batch * workers - 1, workers)
    assert upstream <= steps <= upstream + 1
