"""Ternary gradients: unbiased, packed, reproducible."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: make torch")
DRAWS = 2000
# Two arrays with a gap between them, as in a worker's memory; not multiples of four.
PLACES = (slice(0, 37), slice(48, 51))


def gradients(seed: int = 1) -> Any:
    """Return random gradients, one of them beyond 2.5 standard deviations."""
    found = torch.from_numpy(np.random.default_rng(seed).normal(0, 0.01, 51).astype(np.float32))
    found[5] = 0.2
    return found


def clipped(memory: Any, place: slice) -> Any:
    """Return an array's values within 2.5 standard deviations."""
    bound = 2.5 * float(memory[place].double().std(unbiased=False))
    return memory[place].clamp(-bound, bound)


def ternary(quantizer: Any, memory: Any, scale: float = 1.0) -> Any:
    """Return what the worker's gradients become when summed over itself alone."""
    from bench.training.mxnet.ternary import clipping, restore  # noqa: PLC0415

    bounds, scalers = clipping(memory, PLACES)
    packed = quantizer.quantize(memory, PLACES, bounds, scalers * scale)
    summed = torch.full_like(memory, 7.0)
    restore(summed, PLACES, scalers * scale, [packed])
    return summed


def quantizer(seed: int = 3) -> Any:
    """Return a quantizer with these random numbers."""
    from bench.training.mxnet.ternary import Quantizer  # noqa: PLC0415

    return Quantizer(seed)


@pytest.mark.parametrize("scale", [1.0, 1.7])
def test_the_mean_of_many_draws_is_the_clipped_gradient(scale: float) -> None:
    """With the scaler of this worker, and with a larger one of another worker."""
    memory, drawing = gradients(), quantizer()
    draws = torch.stack([ternary(drawing, memory, scale) for _ in range(DRAWS)]).double()
    for place in PLACES:
        wanted = clipped(memory, place).double()
        scaler = float(wanted.abs().max()) * scale
        assert set(np.round(draws[:, place].unique().numpy() / scaler, 4)) <= {-1.0, 0.0, 1.0}
        error = ((wanted.abs() * (scaler - wanted.abs())).clamp(min=0) / DRAWS).sqrt()
        off = (draws[:, place].mean(0) - wanted).abs()
        assert (off <= 4.5 * error + 2e-5 * scaler).all()
    assert (draws[:, 37:48] == 7.0).all()


def test_clipping_is_at_two_and_a_half_standard_deviations() -> None:
    from bench.training.mxnet.ternary import clipping  # noqa: PLC0415

    memory = gradients()
    bounds, largest = clipping(memory, PLACES)
    for place, bound, top in zip(PLACES, bounds.tolist(), largest.tolist(), strict=True):
        wanted = float(clipped(memory, place).abs().max())
        assert bound == top == pytest.approx(wanted, rel=1e-5)
    assert clipping(torch.full((1,), -0.5), [slice(0, 1)])[0].tolist() == [0.5]


def test_a_seed_determines_the_draws() -> None:
    memory = gradients()
    first, again, other = (ternary(quantizer(seed), memory) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("workers", [2, 5, 200])
def test_sums_of_packed_values_are_exact(workers: int) -> None:
    from bench.training.mxnet.ternary import restore  # noqa: PLC0415

    memory, scalers = gradients(), torch.tensor([0.5, 2.0])
    bounds = torch.tensor([0.5, 2.0])
    each = [quantizer(seed).quantize(memory, PLACES, bounds, scalers) for seed in range(workers)]
    alone = []
    for packed in each:
        one = torch.zeros_like(memory)
        restore(one, PLACES, scalers, [packed])
        alone.append(one)
    together = torch.zeros_like(memory)
    restore(together, PLACES, scalers, each)
    assert torch.equal(together, torch.stack(alone).sum(0))


def test_four_values_share_a_byte_in_arrays_of_any_size() -> None:
    size = (1 << 17) + 5  # a full block and more
    memory, place = torch.full((size,), -0.25), [slice(0, size)]
    one = torch.tensor([0.25])
    packed = quantizer().quantize(memory, place, one, one)
    assert packed.numel() == (1 << 15) + 8
    assert quantizer().packed_bytes(place) == packed.numel() + 4


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_values_that_are_not_finite_stay_visible(bad: float) -> None:
    memory = gradients()
    memory[3] = bad
    found = ternary(quantizer(), memory)
    assert not torch.isfinite(found[PLACES[0]]).any()
    assert torch.isfinite(found[PLACES[1]]).all()


def test_an_array_of_one_value_that_is_not_finite_stays_visible() -> None:
    from bench.training.mxnet.ternary import clipping  # noqa: PLC0415

    (bound,), _ = clipping(torch.full((1,), float("nan")), [slice(0, 1)])
    assert bound.isnan()


def test_zero_gradients_stay_zero() -> None:
    found = ternary(quantizer(), torch.zeros(51))
    assert (found[PLACES[0]] == 0).all()
