"""Metrics of a batch of validation images."""

import math

import numpy as np
import pytest

from bench.training.validation import score, score_outputs


def test_cross_entropy_of_a_probability_near_0_is_upstreams() -> None:
    """Upstream's metric takes the logarithm of the probability plus 1e-12."""
    sure = np.array([[100.0, 0.0], [0.0, 3.0]])
    labels = np.array([1, 1])
    parts = np.exp(sure) / np.exp(sure).sum(axis=1, keepdims=True)
    wanted = -np.log(parts[[0, 1], labels] + 1e-12).sum()
    assert score(sure, labels, 0).loss == pytest.approx(wanted, rel=1e-9)
    assert score_outputs(parts, labels, 0).loss == pytest.approx(wanted, rel=1e-9)
    assert score(sure[:1], labels[:1], 0).loss == pytest.approx(-math.log(1e-12), rel=1e-6)
