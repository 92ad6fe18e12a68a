"""Patterns of amplitude and noise: their likelihood against dense algebra, and what a fit finds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

import cagp
from cagp.hyperparameters import fit_patterns, log_likelihood
from cagp.hyperparameters.observations import observations
from cagp.hyperparameters.patterns import PatternFit, ScaledBlocks, nearness


def uneven(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """On the left a small function with much noise, on the right a large one with little: 0.3, 3 and 0.3, 0.03."""
    rng = np.random.default_rng(4)
    X = np.sort(rng.random((n, 1)), axis=0)
    left = X[:, 0] < 0.5
    f = cagp.Prior(cagp.Matern32(0.05)).sample(X, seed=1)[0]
    return X, np.where(left, 0.3, 3.0) * f + np.where(left, 0.3, 0.03) * rng.normal(size=n)


def test_the_likelihood_and_its_slopes_are_those_of_dense_algebra() -> None:
    """With all predecessors as neighbours, and two outputs; slopes by central differences."""
    rng = np.random.default_rng(4)
    n = 12
    X = rng.random((n, 2))
    b = rng.normal(size=(n, 2))
    amplitude, noise, fixed = rng.uniform(0.5, 2, n), rng.uniform(0.1, 1, n), rng.uniform(0, 0.1, n)
    members = torch.tensor([[j if j < i else -1 for j in range(n - 1)] + [i] for i in range(n)])
    kernel = cagp.Matern32(0.5, 1.3)
    data = observations(cagp.Prior(kernel), X, b, None)
    blocks = ScaledBlocks.of(kernel, data, members, torch.from_numpy(b), data.X.mean(dim=0))

    def by_hand(logs: np.ndarray) -> float:
        s, t = np.exp(logs).T
        G = s[:, None] * kernel(X) * s + np.diag(t**2 * noise + fixed)
        return sum(multivariate_normal(np.zeros(n), G).logpdf(column) for column in b.T) + n * np.log(2 * np.pi)

    start = np.column_stack([np.log(amplitude), np.zeros(n)])
    found, slopes = blocks.log_likelihood(*map(torch.from_numpy, (amplitude, noise, fixed)))
    assert found == pytest.approx(by_hand(start), rel=1e-10)
    for i, which in [(0, 0), (5, 0), (11, 1), (3, 1)]:
        step = np.zeros((n, 2))
        step[i, which] = 1e-5
        assert float(slopes[i, which]) == pytest.approx(
            (by_hand(start + step) - by_hand(start - step)) / 2e-5, rel=1e-6
        )


def test_slopes_and_their_squares_are_sums_over_terms() -> None:
    """In the values at centres, term by term by central differences of each term alone."""
    rng = np.random.default_rng(4)
    n, c = 9, 3
    X, b = rng.random((n, 2)), rng.normal(size=(n, 1))
    shares, noise = rng.dirichlet(np.ones(c), n), rng.uniform(0.1, 1, n)
    members = torch.tensor([[j if j < i else -1 for j in range(n - 1)] + [i] for i in range(n)])
    kernel = cagp.Matern32(0.5, 1.3)
    data = observations(cagp.Prior(kernel), X, b, None)

    def of_term(i: int, values: np.ndarray) -> float:
        blocks = ScaledBlocks.of(kernel, data, members[i : i + 1], torch.from_numpy(b), data.X.mean(dim=0))
        s, t = np.exp(shares @ values.reshape(2, c).T).T
        return blocks.log_likelihood(*map(torch.from_numpy, (s, t**2 * noise, np.zeros(n))))[0]

    steps = 1e-5 * np.eye(2 * c)
    each = np.array([[(of_term(i, step) - of_term(i, -step)) / 2e-5 for step in steps] for i in range(n)])
    blocks = ScaledBlocks.of(kernel, data, members, torch.from_numpy(b), data.X.mean(dim=0))
    flat, zero = np.ones(n), np.zeros(n)
    gradient, squares = blocks.information(*map(torch.from_numpy, (shares, flat, noise, zero)))
    assert_allclose(gradient, each.sum(axis=0), rtol=1e-5, atol=1e-7)
    assert_allclose(squares, each.T @ each, rtol=1e-5, atol=1e-7)


def test_what_is_promised_is_about_what_is_gained_and_where_nothing_varies_what_chance_gains() -> None:
    rng = np.random.default_rng(4)
    X = rng.random((1500, 2))
    prior = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.01)
    twice = []
    for y in prior.sample(X, n=20, seed=0) + 0.1 * rng.normal(size=(20, 1500)):
        gain, freedom = PatternFit(prior, X, y, 5, n_neighbours=15).promise(True, True)
        twice.append(2 * gain)
    assert freedom == 8
    assert np.mean(twice) == pytest.approx(8, abs=4 * (16 / 20) ** 0.5)  # χ²: mean 8, variance 16
    louder = np.where(X[:, 0] < 0.5, 0.1, 0.3)
    average = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.06)
    found = PatternFit(average, X, y + louder * rng.normal(size=1500), 5, n_neighbours=15)
    assert found.promise(False, True)[0] > 50
    assert found.promise(True, True)[0] >= found.promise(False, True)[0]
    wrong = PatternFit(cagp.Prior(cagp.Matern32(0.3, 3.0), noise_variance=0.05), X, y, 5, n_neighbours=15)
    assert wrong.promise(True, True)[0] < 20  # other levels would help, and are no pattern


def test_both_are_found() -> None:
    X, y = uneven()
    prior = cagp.Prior(cagp.Matern32(0.05), mean=cagp.Constant(), noise_variance=0.05)
    found = fit_patterns(prior, X, y, n_centres=6)
    assert isinstance(found.kernel, cagp.Varying)
    assert found.noise_pattern is not None
    ends = np.array([[0.2], [0.8]])
    amplitudes = found.kernel.kernel.variance**0.5 * found.kernel.amplitude(ends)
    noises = found.noise_variance**0.5 * found.noise_pattern(ends)
    assert_allclose(amplitudes, [0.3, 3.0], rtol=0.35)
    assert_allclose(noises, [0.3, 0.03], rtol=0.35)


def test_wrong_levels_are_mended_first() -> None:
    X, y = uneven()
    right = log_likelihood(fit_patterns(cagp.Prior(cagp.Matern32(0.05), noise_variance=0.05), X, y, n_centres=4), X, y)
    for level in (1e-5, 5.0):
        found = fit_patterns(cagp.Prior(cagp.Matern32(0.05), noise_variance=level), X, y, n_centres=4)
        assert log_likelihood(found, X, y) > right - 2


def test_one_of_them() -> None:
    X, y = uneven()
    prior = cagp.Prior(cagp.Matern32(0.05), noise_variance=0.05)
    assert fit_patterns(prior, X, y, amplitude=False, n_centres=4).kernel == prior.kernel
    assert fit_patterns(prior, X, y, noise=False, n_centres=4).noise_pattern is None
    each = cagp.Prior(cagp.Matern32(0.05), noise_variance=np.full(len(y), 0.05))
    assert isinstance(fit_patterns(each, X, y, noise=False, n_centres=4).kernel, cagp.Varying)


def test_where_nothing_varies_hardly_any_pattern_is_found() -> None:
    rng = np.random.default_rng(4)
    X = rng.random((1500, 2))
    y = cagp.Prior(cagp.Matern32(0.3)).sample(X, seed=2)[0] + 0.1 * rng.normal(size=1500)
    found = fit_patterns(cagp.Prior(cagp.Matern32(0.3), noise_variance=0.01), X, y, n_centres=5)
    assert found.noise_pattern is not None
    assert max(found.noise_pattern.values) < 1.4
    assert min(found.noise_pattern.values) > 0.7


def test_what_it_finds_does_not_depend_on_units() -> None:
    X, y = uneven(300)
    one = fit_patterns(cagp.Prior(cagp.Matern32(0.05), noise_variance=0.05), X, y, n_centres=4)
    other = fit_patterns(cagp.Prior(cagp.Matern32(50.0, 1e6), noise_variance=5e4), 1000 * X, 1000 * y, n_centres=4)
    assert one.noise_pattern is not None
    assert other.noise_pattern is not None
    assert_allclose(other.noise_pattern.values, one.noise_pattern.values, rtol=0.02)


@pytest.mark.parametrize(
    ("kernel", "near"),
    [
        (cagp.Matern12(0.2, 3.0), cagp.RBF(0.2)),
        (cagp.Geographic(cagp.Matern12(0.2, 3.0)), cagp.Geographic(cagp.RBF(0.2))),
        (cagp.Matern12(0.2, 3.0) + cagp.Matern32((1.0, 2.0), 4.0), cagp.RBF((1.0, 2.0))),
        (cagp.Matern12(0.2).on(0) * cagp.Linear().on(1), cagp.RBF(0.2).on(0)),
        (cagp.Linear() + cagp.Matern12(0.2), cagp.RBF(0.2)),
        (cagp.Linear(), None),
    ],
)
def test_what_is_near_is_what_the_kernel_says(kernel: cagp.Kernel, near: cagp.Kernel | None) -> None:
    found = nearness(kernel)
    if isinstance(found, cagp.kernels.Product):
        found = found.kernels[0]
    assert found == near


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"amplitude": False, "noise": False}, "nothing to find"),
        ({"n_centres": 0}, "n_centres must be"),
        ({"prior": cagp.Prior(cagp.Linear())}, "falls with distance"),
        ({"prior": cagp.Prior(cagp.RBF(0.1), noise_variance=np.ones(100))}, "say noise=False"),
        ({"X": np.zeros((100, 1))}, "too few for a pattern"),
        ({"X": np.zeros((30, 1)), "y": np.zeros(30)}, "30 observations are too few"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, object], words: str) -> None:
    given = {"prior": cagp.Prior(cagp.RBF(0.1)), "X": np.linspace(0, 1, 100)[:, None], "y": np.zeros(100)} | wrong
    with pytest.raises(cagp.InputError, match=words):
        fit_patterns(**given)  # type: ignore[arg-type]
