"""The synthetic problem has the distribution that it claims to have; errors after each iteration are those of separate
predictions, by SciPy's normal density.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import norm

from cagp import ConjugateGradient, GaussSeidel, RandomDirections, Solver
from cagp_studies.problem import draw, generator, grid, make_prior, trace

PRIOR = make_prior("Matern32", 0.3, 0.1)
PROBLEM = draw(PRIOR, 32, 4, generator(0, 0))


def test_grid() -> None:
    points = grid(21)
    assert points.shape == (441, 2)
    np.testing.assert_allclose(np.unique(points), np.arange(21) * 0.05)
    assert len(np.unique(points, axis=0)) == 441


def test_draws_have_the_covariance_of_the_prior() -> None:
    prior = make_prior("Matern32", 0.4, noise_std=0.3)
    n, repeats = 3, 4000
    normals = np.random.default_rng(0)

    class SamePoints(np.random.Generator):
        """Uniform numbers that are always the same, normals that are not."""

        def random(self, shape):  # type: ignore[no-untyped-def]
            return np.random.default_rng(7).random(shape)

    rng = SamePoints(normals.bit_generator)
    problems = [draw(prior, n, 2, rng) for _ in range(repeats)]
    samples = np.array([np.concatenate([p.y, p.truth]) for p in problems])
    points = np.concatenate([problems[0].X, problems[0].X_test])
    r = np.sqrt(3) * cdist(points, points) / 0.4
    expected = (1 + r) * np.exp(-r) + np.diag([0.09] * n + [0.0] * 4)
    empirical = samples.T @ samples / repeats
    variances = np.diag(expected)
    error = np.sqrt((np.outer(variances, variances) + expected**2) / repeats)
    assert (np.abs(empirical - expected) < 4.5 * error).all()


def test_seeds_and_runs_are_different() -> None:
    first = {tuple(generator(seed, run).random(3)) for seed in range(5) for run in range(5)}
    assert len(first) == 25


def test_lengthscales_share_points_and_noise() -> None:
    short, long = (draw(make_prior("Matern32", ell, 0.1), 10, 3, generator(0, 0)) for ell in (0.1, 0.4))
    np.testing.assert_array_equal(short.X, long.X)
    assert not np.array_equal(short.truth, long.truth)


@pytest.mark.parametrize("make", [lambda m: GaussSeidel(m, order="natural"), ConjugateGradient, RandomDirections])
def test_each_row_is_a_prediction(make: type[Solver]) -> None:
    rows = list(trace(PRIOR, PROBLEM, make(6), 6))  # type: ignore[call-arg]
    assert [row["m"] for row in rows] == [1, 2, 3, 4, 5, 6]
    for m in (1, 4, 6):
        posterior = PRIOR.condition(PROBLEM.X, PROBLEM.y, make(m)).predict(PROBLEM.X_test)  # type: ignore[call-arg]
        error = posterior.mean - PROBLEM.truth
        assert rows[m - 1]["rmse"] == pytest.approx(np.linalg.norm(error) / 4)
        density = norm.logpdf(PROBLEM.truth, posterior.mean, posterior.std)
        assert rows[m - 1]["nll"] == pytest.approx(-density.mean())
    seconds = [row["seconds"] for row in rows]
    assert seconds == sorted(seconds)


def test_a_solver_that_is_done_is_carried_forward() -> None:
    problem = draw(PRIOR, 4, 2, generator(0, 0))
    rows = list(trace(PRIOR, problem, RandomDirections(9), 9))
    assert [row["m"] for row in rows] == list(range(1, 10))
    assert len({row["rmse"] for row in rows}) == 4
    assert {row["rmse"] for row in rows[3:]} == {rows[3]["rmse"]}
