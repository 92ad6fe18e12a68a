"""An amplitude and a noise level that vary: against dense algebra, in every room that has to know of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist

import cagp

RNG = np.random.default_rng(0)
X, X_TEST = RNG.random((60, 2)), RNG.random((9, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1]
CENTRES = np.array([[0.1, 0.1], [0.8, 0.2], [0.4, 0.9]])
LOUD = cagp.Pattern(cagp.RBF(0.3), CENTRES, [0.2, 1.0, 4.0])
NOISY = cagp.Pattern(cagp.Matern32((0.5, 0.2)), CENTRES, [3.0, 0.5, 1.0])
KERNEL = cagp.Varying(cagp.Matern32(0.4, 2.0), LOUD)
PRIOR = cagp.Prior(KERNEL, mean=cagp.Constant(), noise_variance=0.05, noise_pattern=NOISY)


def amplitude(points: np.ndarray) -> np.ndarray:
    """By hand."""
    near = np.exp(-0.5 * cdist(points / 0.3, CENTRES / 0.3) ** 2) + 1e-6
    return np.exp(near / near.sum(axis=1, keepdims=True) @ np.log([0.2, 1.0, 4.0]))


def test_the_kernel_is_scaled_on_both_sides() -> None:
    assert_allclose(LOUD(X), amplitude(X), rtol=1e-12)
    expected = amplitude(X)[:, None] * cagp.Matern32(0.4, 2.0)(X, X_TEST) * amplitude(X_TEST)
    assert_allclose(KERNEL(X, X_TEST), expected, rtol=1e-12)
    assert np.linalg.eigvalsh(KERNEL(X)).min() > 0
    assert_allclose((3 * KERNEL)(X), 3 * KERNEL(X))


@given(st.lists(st.floats(0.01, 100), min_size=3, max_size=3), st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_a_pattern_lies_between_its_values_everywhere(values: list[float], x: float, y: float) -> None:
    found = cagp.Pattern(cagp.RBF(0.3), CENTRES, values)(np.array([[x, y]]))
    assert min(values) * (1 - 1e-9) <= found[0] <= max(values) * (1 + 1e-9)


def test_far_away_it_is_the_average() -> None:
    assert_allclose(LOUD([[1e3, -1e3]]), np.exp(np.mean(np.log([0.2, 1.0, 4.0]))), rtol=1e-12)


SOLVERS = [cagp.Cholesky(), cagp.NearestNeighbours(59, far=0), cagp.CalibratedCG(60)]


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: type(solver).__name__)
def test_predictions_are_those_of_dense_algebra(solver: cagp.Solver) -> None:
    """Ordinary kriging, written out; noise of new observations varies too."""
    noise = 0.05 * NOISY(X) ** 2
    G, V = KERNEL(X) + np.diag(noise), KERNEL(X_TEST, X)
    bordered = np.block([[G, np.ones((60, 1))], [np.ones((1, 60)), np.zeros((1, 1))]])
    W = np.linalg.solve(bordered, np.vstack([V.T, np.ones((1, 9))]))[:60]
    variance = np.diag(KERNEL(X_TEST)) - 2 * np.sum(V.T * W, axis=0) + np.sum(W * (G @ W), axis=0)
    post = PRIOR.condition(X, Y, solver).predict(X_TEST)
    assert_allclose(post.mean, W.T @ Y, atol=2e-5)
    assert_allclose(post.variance, variance, rtol=1e-3)
    assert_allclose(post.observed().variance - post.variance, 0.05 * NOISY(X_TEST) ** 2, rtol=1e-9)


def test_averages_fields_and_left_out_observations_know_it() -> None:
    model = PRIOR.condition(X, Y)
    average = model.average(X_TEST)
    covariance = model.predict(X_TEST).covariance()
    assert_allclose(average.variance, covariance.mean(), rtol=1e-9)
    added = average.observed().variance - average.variance
    assert_allclose(added, (0.05 * NOISY(X_TEST) ** 2).sum() / 81, rtol=1e-9)
    drawn = model.simulate(X_TEST, 400, seed=1, method="vecchia", progress=False)
    assert 0.9 < drawn.spread < 1.1
    left = model.left_out(progress=False)
    rest = PRIOR.condition(X[1:], Y[1:]).predict(X[:1]).observed()
    assert_allclose(left.mean[0], rest.mean[0], rtol=1e-6)
    assert_allclose(left.std[0], rest.std[0], rtol=1e-6)


def test_a_saved_model_has_its_patterns(tmp_path: Path) -> None:
    model = PRIOR.condition(X, Y)
    model.save(tmp_path / "model")
    again = cagp.load(tmp_path / "model")
    assert again.prior == PRIOR
    assert_allclose(again.predict(X_TEST).observed().std, model.predict(X_TEST).observed().std)


def test_a_mixture_keeps_them(tmp_path: Path) -> None:
    plain = cagp.Prior(cagp.Matern32(0.4), noise_variance=0.1)
    model = cagp.Model([prior.condition(X, Y).components[0] for prior in (PRIOR, plain)], [0.4, 0.6])
    model.save(tmp_path / "model")
    again = cagp.load(tmp_path / "model")
    assert_allclose(again.predict(X_TEST).observed().std, model.predict(X_TEST).observed().std)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: cagp.Pattern(cagp.RBF(0.3), CENTRES, [1.0, 2.0]), "values has 2 numbers for 3 centres"),
        (lambda: cagp.Pattern(cagp.RBF(0.3), CENTRES, [1.0, 2.0, 0.0]), r"values\[2\] must be .*positive"),
        (lambda: cagp.Pattern(0.3, CENTRES, [1.0, 2.0, 3.0]), "near must be a kernel"),
        (lambda: cagp.Varying(cagp.RBF(0.3), 2.0), "Varying takes a kernel and a Pattern"),
        (lambda: cagp.Prior(cagp.RBF(0.3), noise_pattern=2.0), "noise_pattern must be a cagp.Pattern"),
        (lambda: cagp.Prior(cagp.RBF(0.3), noise_variance=[1.0, 2.0], noise_pattern=LOUD), "one noise_variance"),
        (lambda: LOUD(np.zeros((3, 1))), "1 columns"),
    ],
)
def test_what_cannot_be_is_refused(make: object, words: str) -> None:
    with pytest.raises((cagp.InputError, cagp.InputTypeError), match=words):
        make()  # type: ignore[operator]


def test_single_precision() -> None:
    double = PRIOR.condition(X, Y, cagp.Cholesky()).predict(X_TEST)
    single = PRIOR.condition(X, Y, cagp.Cholesky(), dtype=torch.float32).predict(X_TEST)
    assert_allclose(single.mean, double.mean, atol=1e-3)
